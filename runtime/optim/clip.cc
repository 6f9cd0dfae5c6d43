#include "runtime/optim/clip.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <iterator>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Norms of pieces of the gradients, [pieces]. A sum of squares in float32 loses a thousandth of itself over some ten
/// million elements, and how much depends on how the elements are divided; over a piece it is as good as exact.
at::Tensor norms_of_pieces(const std::vector<at::Tensor>& gradients) {
  constexpr int64_t kPiece = 512;
  std::vector<at::Tensor> norms, rests;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor flat = gradient.reshape(-1);
    const int64_t rest = flat.numel() % kPiece, full = flat.numel() - rest;
    if (full > 0) norms.push_back(at::linalg_vector_norm(flat.narrow(0, 0, full).view({-1, kPiece}), 2, {1}));
    if (rest > 0) rests.push_back(flat.narrow(0, full, rest));
  }
  if (!rests.empty()) norms.push_back(at::stack(at::_foreach_norm(rests, 2)));
  return at::cat(norms);
}

}  // namespace

double gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh) {
  RECORD_USER_SCOPE("gradient norm");
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> owned;
  for (const auto& parameter : parameters) {
    if (!parameter.grad.defined()) continue;
    const auto counted = std::ranges::count_if(parameter.boxes, &ParameterBox::owner);
    if (counted > 0 && counted == std::ssize(parameter.boxes)) {
      owned.push_back(parameter.grad);
    } else {
      for (const ParameterBox& box : parameter.boxes)
        if (box.owner) owned.push_back(box.in_local(parameter.grad));
    }
  }

  // A vector shorter than the ranks leaves nothing to the last of them.
  std::erase_if(owned, [](const at::Tensor& part) { return part.numel() == 0; });

  at::Tensor sum = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(mesh.device()));
  if (!owned.empty()) sum = norms_of_pieces(owned).to(at::kDouble).square().sum().to(mesh.device());
  all_reduce(mesh.world(), sum, "the gradient norm").wait();
  return sum.sqrt().item<double>();
}

void clip_gradients(std::vector<ShardedParameter>& parameters, double norm, double max_norm) {
  if (max_norm <= 0.0 || norm <= max_norm) return;
  RECORD_USER_SCOPE("clip gradients");
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  for (auto& parameter : parameters)
    if (parameter.grad.defined()) grads.push_back(parameter.grad);
  if (!grads.empty()) at::_foreach_mul_(grads, max_norm / norm);
}

}  // namespace modular
