#include <type_traits>

#include "runtime/ops/cuda/access.h"
#include "runtime/ops/cuda/kernels.h"

namespace modular::cuda {
namespace {

constexpr int kBlockElements = 16384;
constexpr int kVector = kWidth<__nv_bfloat16>;

__host__ __device__ inline int count_blocks(int64_t elements) {
  return static_cast<int>((elements + kBlockElements - 1) / kBlockElements);
}

/// The range of one of the tensors that a block processes.
struct Piece {
  int tensor;
  int64_t first, last;
};

__device__ inline Piece find_block_piece(const AdamWTensors& tensors) {
  int tensor = 0, block = static_cast<int>(blockIdx.x);
  while (block >= count_blocks(tensors.items[tensor].count)) block -= count_blocks(tensors.items[tensor++].count);
  const int64_t first = static_cast<int64_t>(block) * kBlockElements, end = first + kBlockElements;
  return {tensor, first, end < tensors.items[tensor].count ? end : tensors.items[tensor].count};
}

template <int width>
__device__ void update(const AdamWTensor& item, int64_t i, float divisor, const AdamWFactors& by) {
  float gradient[width], value[width], mean[width], square[width];
  load(item.gradient + i, gradient);
  load(item.value + i, value);
  load(item.exp_avg + i, mean);
  load(item.exp_avg_sq + i, square);
  for (int k = 0; k < width; ++k) {
    const float g = gradient[k] / divisor;
    mean[k] = mean[k] + by.gradient_weight * (g - mean[k]);
    square[k] = by.beta2 * square[k] + by.square_weight * g * g;
    value[k] = value[k] * by.decay - by.step_size * mean[k] / (sqrtf(square[k]) / by.sqrt_bias_correction2 + by.eps);
  }
  store(item.exp_avg + i, mean);
  store(item.exp_avg_sq + i, square);
  store(item.value + i, value);
  store(item.compute_copy + i, value);
}

// Calls at(first, width) for all elements of a piece, which the block's threads share: by vectors if the tensor's
// memory is aligned, then for the remaining elements.
template <class At>
__device__ void for_each_in_piece(const Piece& piece, bool by_vectors, const At& at) {
  const int64_t end = by_vectors ? piece.first + (piece.last - piece.first) / kVector * kVector : piece.first;
  for (int64_t i = piece.first + static_cast<int64_t>(threadIdx.x) * kVector; i < end;
       i += static_cast<int64_t>(blockDim.x) * kVector)
    at(i, std::integral_constant<int, kVector>());
  for (int64_t i = end + threadIdx.x; i < piece.last; i += blockDim.x) at(i, std::integral_constant<int, 1>());
}

__global__ void adamw(AdamWTensors tensors, AdamWFactors factors, const float* divisor, const float* skipped) {
  if (skipped && *skipped != 0.0f) return;
  const float divide_by = divisor ? *divisor : 1.0f;
  const Piece piece = find_block_piece(tensors);
  const AdamWTensor& item = tensors.items[piece.tensor];
  for_each_in_piece(piece, item.is_aligned,
                    [&](int64_t i, auto width) { update<width.value>(item, i, divide_by, factors); });
}

__global__ void sums_of_squares(AdamWTensors tensors, float* sums) {
  const Piece piece = find_block_piece(tensors);
  const AdamWTensor& item = tensors.items[piece.tensor];
  float sum = 0.0f;
  for_each_in_piece(piece, item.is_aligned, [&](int64_t i, auto width) {
    float values[width.value];
    load(item.gradient + i, values);
    for (const float value : values) sum += value * value;
  });
  sum = reduce_block<Sum>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

int64_t count_adamw_blocks(const AdamWTensors& tensors) {
  int64_t blocks = 0;
  for (int i = 0; i < tensors.count; ++i) blocks += count_blocks(tensors.items[i].count);
  return blocks;
}

void launch_adamw(const AdamWTensors& tensors, const AdamWFactors& factors, const float* divisor, const float* skipped,
                  cudaStream_t stream) {
  if (const int64_t blocks = count_adamw_blocks(tensors))
    cuda::adamw<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(tensors, factors, divisor, skipped);
}

void launch_sums_of_squares(const AdamWTensors& tensors, float* sums, cudaStream_t stream) {
  if (const int64_t blocks = count_adamw_blocks(tensors))
    cuda::sums_of_squares<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(tensors, sums);
}

}  // namespace modular::cuda
