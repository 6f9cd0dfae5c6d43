#include "runtime/ops/cpu/operations.h"

#include <algorithm>

#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"

namespace modular::cpu {
namespace {

/// A range of elements of one of several tensors that one thread processes. Its size does not depend on the number of
/// threads.
struct Piece {
  size_t tensor;
  int64_t first, count;
};

template <class Sizes>
std::vector<Piece> split_pieces(size_t tensors, const Sizes& size) {
  std::vector<Piece> pieces;
  for (size_t tensor = 0; tensor < tensors; ++tensor)
    for (int64_t first = 0; first < size(tensor); first += kGrain)
      pieces.push_back({tensor, first, std::min(kGrain, size(tensor) - first)});
  return pieces;
}

template <class Work>
void for_each(const std::vector<Piece>& pieces, const Work& work) {
  parallel_ranges(static_cast<int64_t>(pieces.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) work(static_cast<size_t>(i), pieces[static_cast<size_t>(i)]);
  });
}

}  // namespace

void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped) {
  if (skipped && skipped->item<float>() != 0.0F) return;
  const float divide_by = divisor ? divisor->item<float>() : 1.0F;
  const auto pieces = split_pieces(parameters.size(), [&](size_t i) { return parameters[i].value.numel(); });
  for_each(pieces, [&](size_t, const Piece& piece) {
    const AdamWParameter& parameter = parameters[piece.tensor];
    kernels<Bf16>().adamw(read<Bf16>(parameter.gradient) + piece.first, write<float>(parameter.value) + piece.first,
                          write<float>(parameter.exp_avg) + piece.first,
                          write<float>(parameter.exp_avg_sq) + piece.first,
                          write<Bf16>(parameter.compute_copy) + piece.first, piece.count, divide_by, factors);
  });
}

at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors) {
  const auto pieces = split_pieces(tensors.size(), [&](size_t i) { return tensors[i].numel(); });
  const at::Tensor sums = at::zeros({static_cast<int64_t>(pieces.size())}, at::kDouble);
  double* const sum = write<double>(sums);
  for_each(pieces, [&](size_t i, const Piece& piece) {
    sum[i] = kernels<Bf16>().sum_of_squares(read<Bf16>(tensors[piece.tensor]) + piece.first, piece.count);
  });
  return sums.sum();
}

}  // namespace modular::cpu
