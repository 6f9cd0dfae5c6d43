#include "runtime/parallel/unit_layout.h"

#include <algorithm>

namespace modular {

namespace {
// In elements; a cache line in bfloat16, two in float32.
constexpr int64_t kAlignment = 32;

int64_t dimension_to_divide(const std::vector<int64_t>& shape, int64_t ranks) {
  if (shape.empty() || shape[0] >= ranks) return 0;
  for (size_t dim = 1; dim < shape.size(); ++dim)
    if (shape[dim] > 0 && shape[dim] % ranks == 0) return static_cast<int64_t>(dim);
  return 0;
}

}  // namespace

void UnitLayout::add(at::Tensor registered, std::vector<int64_t> shape) {
  ParameterPlacement parameter;
  parameter.registered = std::move(registered);
  parameter.dim = dimension_to_divide(shape, ranks);
  const auto at = shape.begin() + parameter.dim;
  parameter.outer = c10::multiply_integers(shape.begin(), at);
  parameter.rows = shape.empty() ? 1 : *at;
  parameter.row_size = shape.empty() ? 1 : c10::multiply_integers(at + 1, shape.end());
  parameter.chunk_rows = (parameter.rows + ranks - 1) / ranks;
  parameter.shape = std::move(shape);
  parameter.offset = shard_size;
  shard_size += (parameter.chunk() + kAlignment - 1) / kAlignment * kAlignment;
  parameters.push_back(std::move(parameter));
}

std::pair<int64_t, int64_t> UnitLayout::rows_of(const ParameterPlacement& parameter, int64_t rank) const {
  const int64_t first = std::min(rank * parameter.chunk_rows, parameter.rows);
  return {first, std::min(parameter.chunk_rows, parameter.rows - first)};
}

at::Tensor UnitLayout::local(const at::Tensor& flat_shard, const ParameterPlacement& parameter, int64_t rank) const {
  std::vector<int64_t> shape = parameter.shape;
  const int64_t count = rows_of(parameter, rank).second;
  if (!shape.empty())
    shape[static_cast<size_t>(parameter.dim)] = count;
  else if (count == 0)
    shape = {0};
  return flat_shard.narrow(0, parameter.offset, parameter.outer * count * parameter.row_size).view(shape);
}

at::Tensor UnitLayout::chunks(const at::Tensor& flat_whole, const ParameterPlacement& parameter) const {
  return flat_whole.narrow(0, parameter.offset * ranks, parameter.chunk() * ranks)
      .view({parameter.outer, ranks, parameter.run()})
      .transpose(0, 1);
}

at::Tensor UnitLayout::whole(const at::Tensor& flat_whole, const ParameterPlacement& parameter) const {
  return flat_whole.narrow(0, parameter.offset * ranks, parameter.elements()).view(parameter.shape);
}

}  // namespace modular
