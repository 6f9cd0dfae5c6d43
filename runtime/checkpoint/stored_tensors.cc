#include "runtime/checkpoint/stored_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {

void StoredSlice::verify(const at::Tensor& view) const {
  if (computed) return;
  const auto first = static_cast<uint64_t>(view.storage_offset());
  uint64_t last = first;
  for (int64_t dim = 0; dim < view.dim(); ++dim) last += static_cast<uint64_t>((view.size(dim) - 1) * view.stride(dim));
  file->verify(key, first * view.element_size(), (last + 1) * view.element_size());
}

void reject_integers(const std::string& name, const StoredTensor& tensor) {
  for (const StoredSlice& slice : tensor.slices)
    if (slice.file && !at::isFloatingType(slice.file->tensors().find(slice.key)->second.dtype))
      throw std::runtime_error(
          fmt::format("{}: \"{}\" is of integers, and the model's \"{}\" of floating-point numbers",
                      slice.file->path().string(), slice.key, name));
}

void read_slice(const std::string& name, const StoredTensor& tensor, at::IntArrayRef offset, at::Tensor into) {
  TORCH_INTERNAL_ASSERT(offset.size() == tensor.shape.size() && into.dim() == static_cast<int64_t>(offset.size()),
                        name);
  at::NoGradGuard no_grad;
  if (into.is_floating_point()) reject_integers(name, tensor);
  int64_t found = 0;
  for (const StoredSlice& slice : tensor.slices) {
    at::Tensor target = into;
    std::vector<int64_t> from, size;
    for (size_t dim = 0; dim < offset.size(); ++dim) {
      const int64_t begin = std::max(offset[dim], slice.offset[dim]);
      const int64_t end =
          std::min(offset[dim] + into.size(static_cast<int64_t>(dim)), slice.offset[dim] + slice.shape[dim]);
      from.push_back(begin);
      size.push_back(std::max<int64_t>(end - begin, 0));
    }
    if (std::ranges::find(size, 0) != size.end()) continue;
    at::Tensor source = slice.values().view(slice.shape);  // a file may lack dimensions of size 1
    for (size_t dim = 0; dim < offset.size(); ++dim) {
      const auto d = static_cast<int64_t>(dim);
      source = source.narrow(d, from[dim] - slice.offset[dim], size[dim]);
      target = target.narrow(d, from[dim] - offset[dim], size[dim]);
    }
    slice.verify(source);
    target.copy_(source);
    found += target.numel();
  }
  if (found != into.numel())
    throw std::runtime_error(fmt::format("the files hold {} of {} values of \"{}\" at {}", found, into.numel(), name,
                                         shape_text(offset.vec())));
  if (!tensor.rows) return;
  for (size_t i = 0; i < tensor.rows->ids.size(); ++i) {
    const int64_t row = tensor.rows->ids[i] - offset[0];
    if (row < 0 || row >= into.size(0)) continue;
    std::vector<int64_t> from = offset.vec();
    from[0] = static_cast<int64_t>(i);
    read_slice(name, tensor.rows->values, from, into.narrow(0, row, 1));
  }
}

at::Tensor read_full(const std::string& name, const StoredTensor& tensor, at::ScalarType dtype) {
  at::Tensor whole = at::empty(tensor.shape, at::TensorOptions().dtype(dtype));
  read_slice(name, tensor, std::vector<int64_t>(tensor.shape.size(), 0), whole);
  return whole;
}

std::vector<ModelParameter> model_parameters(const ModelConfig& model) {
  ParameterTable table;
  try {
    const Model built = build_on_meta(*model.entry, *model.config);
    table = parameter_table(*built.module, *model.entry->plan, *model.config, /*stages=*/{});
  } catch (const ConfigError& error) {
    if (model.source.empty()) throw;
    throw ConfigError(fmt::format("{}: {}", model.source, error.what()));
  }
  std::ranges::move(table.buffers, std::back_inserter(table.parameters));
  return std::move(table.parameters);
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace modular
