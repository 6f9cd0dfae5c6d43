#include "runtime/parallel/unit_layout.h"

#include <algorithm>

namespace modular {

namespace {
// In elements; a cache line in bfloat16, two in float32.
constexpr int64_t kAlignment = 32;
}  // namespace

void UnitLayout::add(at::Tensor registered, std::vector<int64_t> shape) {
  ParameterPlacement parameter;
  parameter.registered = std::move(registered);
  parameter.rows = shape.empty() ? 1 : shape[0];
  parameter.row_size = c10::multiply_integers(shape) / std::max<int64_t>(parameter.rows, 1);
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
    shape[0] = count;
  else if (count == 0)
    shape = {0};
  return flat_shard.narrow(0, parameter.offset, count * parameter.row_size).view(shape);
}

at::Tensor UnitLayout::chunks(const at::Tensor& flat_whole, const ParameterPlacement& parameter) const {
  return flat_whole.narrow(0, parameter.offset * ranks, parameter.chunk() * ranks).view({ranks, parameter.chunk()});
}

at::Tensor UnitLayout::whole(const at::Tensor& flat_whole, const ParameterPlacement& parameter) const {
  return flat_whole.narrow(0, parameter.offset * ranks, parameter.elements()).view(parameter.shape);
}

}  // namespace modular
