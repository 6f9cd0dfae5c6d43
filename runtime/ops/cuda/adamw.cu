#include <type_traits>

#include "runtime/ops/cuda/access.h"
#include "runtime/ops/cuda/adamw.h"

namespace modular::cuda {
namespace {

constexpr int kOfABlock = 16384;  // elements
constexpr int kVector = kWidth<__nv_bfloat16>;

__host__ __device__ inline int count_blocks(int64_t elements) {
  return static_cast<int>((elements + kOfABlock - 1) / kOfABlock);
}

/// The piece of one of the tensors that a block works on.
struct Piece {
  int tensor;
  int64_t first, last;
};

__device__ inline Piece piece_of_block(const AdamWTensors& tensors) {
  int tensor = 0, block = static_cast<int>(blockIdx.x);
  while (block >= count_blocks(tensors.of[tensor].count)) block -= count_blocks(tensors.of[tensor++].count);
  const int64_t first = static_cast<int64_t>(block) * kOfABlock, end = first + kOfABlock;
  return {tensor, first, end < tensors.of[tensor].count ? end : tensors.of[tensor].count};
}

template <int width>
__device__ void update(const AdamWTensor& of, int64_t i, float divisor, const AdamWFactors& by) {
  float gradient[width], value[width], mean[width], square[width];
  load(of.gradient + i, gradient);
  load(of.value + i, value);
  load(of.exp_avg + i, mean);
  load(of.exp_avg_sq + i, square);
  for (int k = 0; k < width; ++k) {
    const float g = gradient[k] / divisor;
    mean[k] = mean[k] + by.of_gradient * (g - mean[k]);
    square[k] = by.beta2 * square[k] + by.of_square * g * g;
    value[k] = value[k] * by.decay - by.step_size * mean[k] / (sqrtf(square[k]) / by.root_of_correction + by.eps);
  }
  store(of.exp_avg + i, mean);
  store(of.exp_avg_sq + i, square);
  store(of.value + i, value);
  store(of.rounded + i, value);
}

// Calls at(first, width) for all elements of a piece that the block's threads share: by vectors where the tensor's
// memory is aligned, then those that are left.
template <class At>
__device__ void each_of_piece(const Piece& piece, bool by_vectors, const At& at) {
  const int64_t end = by_vectors ? piece.first + (piece.last - piece.first) / kVector * kVector : piece.first;
  for (int64_t i = piece.first + static_cast<int64_t>(threadIdx.x) * kVector; i < end;
       i += static_cast<int64_t>(blockDim.x) * kVector)
    at(i, std::integral_constant<int, kVector>());
  for (int64_t i = end + threadIdx.x; i < piece.last; i += blockDim.x) at(i, std::integral_constant<int, 1>());
}

__global__ void adamw(AdamWTensors tensors, AdamWFactors factors, const float* divisor, const float* skipped) {
  if (skipped && *skipped != 0.0f) return;
  const float divide_by = divisor ? *divisor : 1.0f;
  const Piece piece = piece_of_block(tensors);
  const AdamWTensor& of = tensors.of[piece.tensor];
  each_of_piece(piece, of.is_aligned, [&](int64_t i, auto width) { update<width.value>(of, i, divide_by, factors); });
}

__global__ void sums_of_squares(AdamWTensors tensors, float* sums) {
  const Piece piece = piece_of_block(tensors);
  const AdamWTensor& of = tensors.of[piece.tensor];
  float sum = 0.0f;
  each_of_piece(piece, of.is_aligned, [&](int64_t i, auto width) {
    float values[width.value];
    load(of.gradient + i, values);
    for (const float value : values) sum += value * value;
  });
  sum = reduce_block<Sum>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

int64_t blocks_of_adamw(const AdamWTensors& tensors) {
  int64_t blocks = 0;
  for (int i = 0; i < tensors.count; ++i) blocks += count_blocks(tensors.of[i].count);
  return blocks;
}

void launch_adamw(const AdamWTensors& tensors, const AdamWFactors& factors, const float* divisor, const float* skipped,
                  cudaStream_t stream) {
  if (const int64_t blocks = blocks_of_adamw(tensors))
    cuda::adamw<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(tensors, factors, divisor, skipped);
}

void launch_sums_of_squares(const AdamWTensors& tensors, float* sums, cudaStream_t stream) {
  if (const int64_t blocks = blocks_of_adamw(tensors))
    cuda::sums_of_squares<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(tensors, sums);
}

}  // namespace modular::cuda
