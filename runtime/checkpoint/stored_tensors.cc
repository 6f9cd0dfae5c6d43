#include "runtime/checkpoint/stored_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "runtime/parallel/meta_construction.h"

namespace modular {

void read_box(const std::string& name, const StoredTensor& tensor, at::IntArrayRef offset, at::Tensor into) {
  TORCH_INTERNAL_ASSERT(offset.size() == tensor.shape.size() && into.dim() == static_cast<int64_t>(offset.size()),
                        name);
  at::NoGradGuard no_grad;
  int64_t found = 0;
  for (const StoredBox& box : tensor.boxes) {
    at::Tensor target = into;
    std::vector<int64_t> from, size;
    for (size_t dim = 0; dim < offset.size(); ++dim) {
      const int64_t begin = std::max(offset[dim], box.offset[dim]);
      const int64_t end =
          std::min(offset[dim] + into.size(static_cast<int64_t>(dim)), box.offset[dim] + box.shape[dim]);
      from.push_back(begin);
      size.push_back(std::max<int64_t>(end - begin, 0));
    }
    if (std::ranges::find(size, 0) != size.end()) continue;
    at::Tensor source = box.values().view(box.shape);  // a file may lack dimensions of size 1
    for (size_t dim = 0; dim < offset.size(); ++dim) {
      const auto d = static_cast<int64_t>(dim);
      source = source.narrow(d, from[dim] - box.offset[dim], size[dim]);
      target = target.narrow(d, from[dim] - offset[dim], size[dim]);
    }
    target.copy_(source);
    found += target.numel();
  }
  if (found != into.numel())
    throw std::runtime_error(fmt::format("the files hold {} of {} values of \"{}\" at {}", found, into.numel(), name,
                                         shape_text(offset.vec())));
}

std::vector<ModelParameter> model_parameters(const ModelConfig& model) {
  const Model built = build_on_meta(*model.entry, *model.config);
  ParameterTable table = parameter_table(*built.module, *model.entry->plan, *model.config, /*stage=*/nullptr);
  std::ranges::move(table.buffers, std::back_inserter(table.parameters));
  return std::move(table.parameters);
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace modular
