#include "runtime/optim/optimizer.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <iterator>

#include "runtime/mesh/collectives.h"
#include "runtime/ops/adamw.h"

namespace modular {
namespace {

/// Norms of pieces of the gradients, [pieces]. A sum of squares in float32 loses a thousandth of its value over about
/// ten million elements, and the loss depends on how the elements are divided; over a short piece it is nearly exact.
at::Tensor compute_piece_norms(const std::vector<at::Tensor>& gradients) {
  constexpr int64_t kPiece = 512;
  std::vector<at::Tensor> norms, rests;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor flat = gradient.reshape(-1).to(at::kFloat);
    const int64_t rest = flat.numel() % kPiece, full = flat.numel() - rest;
    if (full > 0) norms.push_back(at::linalg_vector_norm(flat.narrow(0, 0, full).view({-1, kPiece}), 2, {1}));
    if (rest > 0) rests.push_back(flat.narrow(0, full, rest));
  }
  if (!rests.empty()) norms.push_back(at::stack(at::_foreach_norm(rests, 2)));
  return at::cat(norms);
}

/// The sum of all squares, [] float64.
at::Tensor sum_squares(const std::vector<at::Tensor>& gradients) {
  const auto has_kernel = [](const at::Tensor& gradient) {
    return gradient.scalar_type() == at::kBFloat16 && gradient.is_contiguous() && has_adamw(gradient.device());
  };
  if (std::ranges::all_of(gradients, has_kernel)) return sum_of_squares(gradients);
  return compute_piece_norms(gradients).to(at::kDouble).square().sum();
}

}  // namespace

GradientNorm find_gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh, const at::Tensor& loss) {
  RECORD_USER_SCOPE("gradient norm");
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> owned;
  for (const auto& parameter : parameters) {
    if (!parameter.grad.defined()) continue;
    const auto counted = std::ranges::count_if(parameter.slices, &ParameterSlice::owner);
    if (counted > 0 && counted == std::ssize(parameter.slices)) {
      owned.push_back(parameter.grad);
    } else {
      for (const ParameterSlice& slice : parameter.slices)
        if (slice.owner) owned.push_back(slice.in_local(parameter.grad));
    }
  }

  // If a vector is shorter than the number of ranks, the last ranks hold nothing.
  std::erase_if(owned, [](const at::Tensor& part) { return part.numel() == 0; });

  // A sum with a non-finite term is not finite either.
  const auto numbers = at::TensorOptions().dtype(at::kDouble).device(mesh.device());
  const at::Tensor none = at::zeros({}, numbers);
  const at::Tensor squares = owned.empty() ? none : sum_squares(owned).to(mesh.device());
  const at::Tensor sums = at::stack({squares, loss.defined() ? loss.detach().to(numbers) : none});
  all_reduce(mesh.world(), sums, "the gradient norm").wait();
  return {sums[0].sqrt(), sums.isfinite().all().to(at::kDouble)};
}

Clipping clipping_to(double max_norm, const GradientNorm& gradient) {
  at::NoGradGuard no_grad;
  Clipping clipping = {.divisor = {}, .skipped = 1.0 - gradient.is_finite};
  if (max_norm > 0.0) clipping.divisor = (gradient.norm / max_norm).clamp_min(1.0);
  return clipping;
}

}  // namespace modular
