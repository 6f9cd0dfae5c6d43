#include "runtime/parallel/fsdp/unit_layout.h"

#include <algorithm>

namespace modular {

namespace {
// In elements: a cache line in bfloat16, two in float32.
constexpr int64_t kAlignment = 32;

/// Returns the first dimension whose sharding, padded to the longest shard, takes at most 5% more memory than the best
/// dimension: a later dimension consists of several runs, which requires a copy-out after the all-gather.
int64_t dimension_to_divide(const std::vector<int64_t>& shape, int64_t ranks) {
  constexpr double kWorthACopy = 1.05;
  const auto padding_factor = [=](int64_t size) {  // padded size / size
    return size > 0 ? static_cast<double>((size + ranks - 1) / ranks * ranks) / static_cast<double>(size) : 1.0;
  };
  if (shape.empty()) return 0;
  const double least = padding_factor(*std::ranges::min_element(shape, {}, padding_factor));
  const auto found =
      std::ranges::find_if(shape, [&](int64_t size) { return padding_factor(size) <= kWorthACopy * least; });
  return found - shape.begin();
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

std::pair<int64_t, int64_t> UnitLayout::get_rows(const ParameterPlacement& parameter, int64_t rank) const {
  const int64_t first = std::min(rank * parameter.chunk_rows, parameter.rows);
  return {first, std::min(parameter.chunk_rows, parameter.rows - first)};
}

at::Tensor UnitLayout::local(const at::Tensor& flat_shard, const ParameterPlacement& parameter, int64_t rank) const {
  std::vector<int64_t> shape = parameter.shape;
  const int64_t count = get_rows(parameter, rank).second;
  if (!shape.empty())
    shape[static_cast<size_t>(parameter.dim)] = count;
  else if (count == 0)
    shape = {0};
  return flat_shard.narrow(0, parameter.offset, parameter.outer * count * parameter.row_size).view(shape);
}

at::Tensor UnitLayout::chunks(const at::Tensor& flat_full, const ParameterPlacement& parameter) const {
  TORCH_INTERNAL_ASSERT(parameter.outer == 1);
  return flat_full.narrow(0, parameter.offset * ranks, parameter.chunk() * ranks).view({ranks, parameter.chunk()});
}

std::vector<UnitLayout::ShardViews> UnitLayout::shard_views(const at::Tensor& full_parameter, const at::Tensor& by_rank,
                                                            const ParameterPlacement& parameter) const {
  if (parameter.elements() == 0) return {};
  const int64_t outer = parameter.outer, full_ranks = parameter.rows / parameter.chunk_rows;
  const int64_t divided = full_ranks * parameter.chunk_rows, rest = parameter.rows - divided;
  const at::Tensor rows = full_parameter.view({outer, parameter.rows, parameter.row_size});
  const at::Tensor chunks = by_rank.narrow(1, parameter.offset, parameter.chunk());
  std::vector<ShardViews> views;
  if (full_ranks > 0)
    views.push_back({rows.narrow(1, 0, divided).view({outer, full_ranks, parameter.run()}),
                     chunks.narrow(0, 0, full_ranks).view({full_ranks, outer, parameter.run()}).transpose(0, 1)});
  if (rest > 0)
    views.push_back({rows.narrow(1, divided, rest),
                     chunks[full_ranks].narrow(0, 0, outer * rest * parameter.row_size).view({outer, rest, -1})});
  return views;
}

void UnitLayout::clear_padding(const at::Tensor& by_rank, const ParameterPlacement& parameter) const {
  if (parameter.chunk() == 0 || parameter.rows == ranks * parameter.chunk_rows) return;
  const int64_t full_ranks = parameter.rows / parameter.chunk_rows, rest = parameter.rows % parameter.chunk_rows;
  const int64_t kept = parameter.outer * rest * parameter.row_size;
  const at::Tensor chunks = by_rank.narrow(1, parameter.offset, parameter.chunk());
  chunks[full_ranks].narrow(0, kept, parameter.chunk() - kept).zero_();
  chunks.narrow(0, full_ranks + 1, ranks - full_ranks - 1).zero_();
}

at::Tensor UnitLayout::full(const at::Tensor& flat_full, const ParameterPlacement& parameter) const {
  return flat_full.narrow(0, parameter.offset * ranks, parameter.elements()).view(parameter.shape);
}

}  // namespace modular
