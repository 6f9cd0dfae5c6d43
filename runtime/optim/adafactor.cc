// Adafactor (Shazeer & Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost), as in
// torch.optim.Adafactor. For a matrix, and each matrix of a stack of experts, the second moment is kept as the means of
// its rows and of its columns. These means, and the root mean squares that scale an update, are over the full
// parameter: each rank sums over its own slices, and the sums are gathered and added, twice a step for each pack of
// parameters.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "runtime/mesh/collectives.h"
#include "runtime/optim/update_rule.h"

namespace modular {
namespace {

// Replicas hold the same slices and compute the same sums.
const std::vector<Axis>& kAxes = kSliceAxes;

int64_t elements(const std::vector<int64_t>& shape) { return c10::multiply_integers(shape); }

bool is_factored(const std::vector<int64_t>& shape) { return shape.size() >= 2; }

/// `shape` with size 1 in the dimension that is `from_end` before the last.
std::vector<int64_t> collapsed(std::vector<int64_t> shape, size_t from_end) {
  shape[shape.size() - 1 - from_end] = 1;
  return shape;
}

ParameterSlice collapsed(ParameterSlice slice, size_t from_end) {
  slice.offset[slice.offset.size() - 1 - from_end] = 0;
  slice.shape[slice.shape.size() - 1 - from_end] = 1;
  return slice;
}

/// Means over one dimension. Every rank keeps them unsharded because they are small compared to the parameter.
ShardedParameter means(const ShardedParameter& parameter, const char* what, size_t from_end, const Mesh& mesh) {
  ShardedParameter kept;
  kept.name = std::string("optimizer.") + what + "." + parameter.name;
  kept.global_shape = collapsed(parameter.global_shape, from_end);
  const std::vector<int64_t> origin(kept.global_shape.size(), 0);
  const bool owner = !parameter.slices.empty() && parameter.slices.front().owner && mesh.coordinate(kAxes) == 0;
  kept.slices = {{.offset = origin, .start = origin, .shape = kept.global_shape, .owner = owner}};
  kept.local = at::zeros(kept.global_shape, parameter.local.options());
  return kept;
}

std::vector<ShardedParameter> state(const ShardedParameter& parameter, const OptimizerOptions&, const Mesh& mesh) {
  if (!is_factored(parameter.global_shape)) return {state_like(parameter, "variance")};
  return {means(parameter, "row_var", 0, mesh), means(parameter, "col_var", 1, mesh)};
}

/// The sum over the group of each rank's `own` [n], added in rank order: bit-identical on all ranks of the group, in
/// other replicas, and in another stage that holds the same parameter, independent of its position among the n.
at::Tensor sum_over(const ProcessGroup& group, const at::Tensor& own, const char* what) {
  if (!group) return own;
  at::Tensor all = at::empty({group->getSize(), own.numel()}, own.options());
  all[group->getRank()].copy_(own);
  all_gather(group, {all.view(-1)}, what).wait();
  at::Tensor sum = all[0].clone();
  for (int rank = 1; rank < group->getSize(); ++rank) sum.add_(all[rank]);
  return sum;
}

/// Calls visit(slice) for the slices that this rank, with index `rank` among the ranks that share a parameter, adds to
/// its sums.
template <class Visit>
void for_each_counted(const Updated& updated, size_t rank, const Visit& visit) {
  const std::vector<ParameterSlice>& slices = updated.parameter->slices;
  for (size_t i = 0; i < slices.size(); ++i)
    if (updated.holders->first[rank][i]) visit(slices[i]);
}

/// The sum of squares of `values`, which have the parameter's layout.
at::Tensor sum_of_squares(const Updated& updated, size_t rank, const at::Tensor& values) {
  at::Tensor sum = at::zeros({1}, values.options().dtype(at::kDouble));
  for_each_counted(updated, rank, [&](const ParameterSlice& slice) {
    sum.add_(at::linalg_vector_norm(slice.in_local(values), 2, c10::nullopt, /*keepdim=*/false, at::kDouble).square_());
  });
  return sum;
}

/// This rank's part of a parameter's sums over ranks: the squares of its elements and, if it is factored, the squares
/// of its gradient by row and by column.
std::vector<at::Tensor> own_sums(const Updated& updated, size_t rank) {
  const ShardedParameter& parameter = *updated.parameter;
  std::vector<at::Tensor> sums = {sum_of_squares(updated, rank, parameter.local)};
  if (!is_factored(parameter.global_shape)) return sums;
  for (const size_t from_end : {size_t{0}, size_t{1}}) {
    at::Tensor sum = at::zeros(collapsed(parameter.global_shape, from_end), parameter.local.options());
    const int64_t dim = -1 - static_cast<int64_t>(from_end);
    for_each_counted(updated, rank, [&](const ParameterSlice& slice) {
      collapsed(slice, from_end)
          .in_global(sum)
          .add_(at::linalg_vector_norm(slice.in_local(parameter.grad), 2, {dim}, /*keepdim=*/true).square_());
    });
    sums.push_back(sum.to(at::kDouble).view(-1));
  }
  return sums;
}

/// Updates the running second moment with the gradient's squares and returns this rank's estimate per element, in the
/// layout of `local`. `row_sums` and `column_sums` are over the full parameter.
at::Tensor second_moment(const Updated& updated, const at::Tensor& row_sums, const at::Tensor& column_sums,
                         double weight, double eps1) {
  const ShardedParameter& parameter = *updated.parameter;
  if (!is_factored(parameter.global_shape))
    return updated.state[0].local.lerp_(parameter.grad.square(), weight).clone(at::MemoryFormat::Contiguous);

  const at::Tensor &rows = updated.state[0].local, &columns = updated.state[1].local;
  const auto size = [&](size_t from_end) {
    return static_cast<double>(parameter.global_shape[parameter.global_shape.size() - 1 - from_end]);
  };
  rows.lerp_((row_sums / size(0)).to(at::kFloat).view(rows.sizes()), weight);
  columns.lerp_((column_sums / size(1)).to(at::kFloat).view(columns.sizes()), weight);
  const at::Tensor mean = rows.mean(/*dim=*/{-2}, /*keepdim=*/true).clamp_min_(eps1);
  at::Tensor estimate = at::empty_like(parameter.local);
  for (const ParameterSlice& slice : parameter.slices) {
    const ParameterSlice row_slice = collapsed(slice, 0);
    at::Tensor part = slice.in_local(estimate);
    at::mul_out(part, row_slice.in_global(rows), collapsed(slice, 1).in_global(columns));
    part.div_(collapsed(row_slice, 1).in_global(mean));
  }
  return estimate;
}

void update_pack(std::span<const Updated> pack, const Step& step) {
  const ProcessGroup group = step.mesh.group(kAxes);
  const size_t rank = group ? static_cast<size_t>(group->getRank()) : 0;
  const OptimizerOptions& options = step.options;

  std::vector<at::Tensor> own;
  std::vector<int64_t> sizes;
  for (const Updated& updated : pack)
    for (const at::Tensor& sum : own_sums(updated, rank)) {
      own.push_back(sum);
      sizes.push_back(sum.numel());
    }
  const std::vector<at::Tensor> sums =
      sum_over(group, at::cat(own), "the sums of squares of gradients").split_with_sizes(sizes);

  const double weight = std::pow(static_cast<double>(step.number), options.beta2_decay);
  std::vector<at::Tensor> updates, squares, own_squares;
  for (size_t i = 0, sum = 0; i < pack.size(); ++i) {
    const ShardedParameter& parameter = *pack[i].parameter;
    const bool factored = is_factored(parameter.global_shape);
    squares.push_back(sums[sum]);
    const at::Tensor moment = second_moment(pack[i], factored ? sums[sum + 1] : at::Tensor(),
                                            factored ? sums[sum + 2] : at::Tensor(), weight, options.eps1);
    sum += factored ? 3 : 1;
    updates.push_back(moment.clamp_min_(options.eps1 * options.eps1).rsqrt_().mul_(parameter.grad));
    own_squares.push_back(sum_of_squares(pack[i], rank, updates.back()));
  }
  const at::Tensor update_squares = sum_over(group, at::cat(own_squares), "the sums of squares of updates").cpu();
  const at::Tensor value_squares = at::cat(squares).cpu();

  const double rho = std::min(step.lr, 1.0 / std::sqrt(static_cast<double>(step.number)));
  for (size_t i = 0; i < pack.size(); ++i) {
    const ShardedParameter& parameter = *pack[i].parameter;
    const auto root_mean = [&](const at::Tensor& sums) {
      return std::sqrt(sums.const_data_ptr<double>()[i] / static_cast<double>(elements(parameter.global_shape)));
    };
    const double rate = std::max(options.eps2, root_mean(value_squares)) * rho;
    if (step.weight_decay != 0.0) parameter.local.mul_(1.0 - step.lr * step.weight_decay);
    parameter.local.add_(updates[i], -rate / std::max(1.0, root_mean(update_squares) / options.clip_threshold));
  }
}

void update(std::span<const Updated> parameters, const Step& step) {
  // Small parameters share their collectives. The pack size bounds the memory of updates. It counts full parameters,
  // because the ranks must agree.
  constexpr int64_t kPack = int64_t{1} << 22;
  while (!parameters.empty()) {
    size_t count = 0;
    for (int64_t size = 0; count < parameters.size() && (count == 0 || size < kPack); ++count)
      size += elements(parameters[count].parameter->global_shape);
    update_pack(parameters.first(count), step);
    parameters = parameters.subspan(count);
  }
}

}  // namespace

const UpdateRule kAdafactor = {.state = state, .update = update, .axes = kAxes};

}  // namespace modular
