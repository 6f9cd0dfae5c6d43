#include "runtime/parallel/data_parallel_rows.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatherRows : torch::autograd::Function<GatherRows> {
  static Tensor forward(AutogradContext* context, const Tensor& rows, const ProcessGroup& group) {
    context->saved_data["group"] = group;
    std::vector<int64_t> shape = rows.sizes().vec();
    shape.insert(shape.begin(), group->getSize());
    Tensor all = at::empty(shape, rows.options());
    all[group->getRank()].copy_(rows.detach());
    all_gather(group, {all}, "the rows of data-parallel ranks").wait();
    return all.flatten(0, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    const Tensor all = gradients[0].contiguous();
    std::vector<int64_t> shape = all.sizes().vec();
    shape[0] /= group->getSize();
    Tensor own = at::empty(shape, all.options());
    reduce_scatter(group, own.flatten(), all.flatten(), "the gradients of rows of data-parallel ranks").wait();
    return {own, Tensor()};
  }
};

class GroupDataParallel final : public dp::DataParallel {
 public:
  explicit GroupDataParallel(ProcessGroup group) : group_(std::move(group)) {}
  int64_t rank() const override { return group_->getRank(); }
  Tensor gather(const Tensor& rows) override { return GatherRows::apply(rows, group_); }

 private:
  ProcessGroup group_;
};

}  // namespace

std::unique_ptr<dp::DataParallel> make_data_parallel(ProcessGroup group) {
  return std::make_unique<GroupDataParallel>(std::move(group));
}

}  // namespace modular
