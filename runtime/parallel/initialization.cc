#include "runtime/parallel/initialization.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ConstexprCrc.h>

#include <mutex>
#include <utility>

#include "runtime/parallel/draws.h"

namespace modular {
namespace {

/// Seeds the default CPU generator for a scope; what it would have drawn outside of the scope stays as it was.
class SeededCpuGenerator {
 public:
  explicit SeededCpuGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededCpuGenerator() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededCpuGenerator(const SeededCpuGenerator&) = delete;
  SeededCpuGenerator& operator=(const SeededCpuGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

void BoxInitializer::add(const at::Tensor& registered, ShardedParameter& box) {
  boxes_.emplace(registered.unsafeGetTensorImpl(), &box);
}

void BoxInitializer::run(nn::Module& root) {
  const Binding binding({.initializer = this});
  init::reset(root);
  for (const auto& [registered, box] : boxes_) {
    if (!filled_.contains(box))
      throw std::runtime_error("no reset_parameters() initializes " + box->name +
                               ": the class that registers it must do so through init::");
  }
}

ShardedParameter* BoxInitializer::take(const at::Tensor& parameter) {
  const auto found = boxes_.find(parameter.unsafeGetTensorImpl());
  if (found == boxes_.end()) return nullptr;
  filled_.insert(found->second);
  return found->second;
}

uint64_t BoxInitializer::key_of(const ShardedParameter& box) const {
  return c10::util::crc64(std::to_string(seed_) + "/" + box.name).checksum();
}

void BoxInitializer::draw(const at::Tensor& parameter,
                          const std::function<init::Distribution(at::IntArrayRef shape)>& of) {
  ShardedParameter* const box = take(parameter);
  if (!box) return;
  const at::NoGradGuard no_grad;
  const init::Distribution from = of(box->global_shape);
  for (const ParameterBox& part : box->boxes)
    draw_part(from, key_of(*box), box->global_shape, part.offset, part.in_local(box->local));
}

void BoxInitializer::fill(const at::Tensor& parameter, const std::function<void(at::Tensor& whole)>& write) {
  ShardedParameter* const box = take(parameter);
  if (!box || box->local.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const SeededCpuGenerator seeded(key_of(*box));
  at::Tensor whole = at::empty(box->global_shape, at::kFloat);
  write(whole);
  for (const ParameterBox& part : box->boxes) part.in_local(box->local).copy_(part.in_global(whole));
}

}  // namespace modular
