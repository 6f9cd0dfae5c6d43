#include "runtime/ops/cuda/kernels.h"

#include <cuda_fp8.h>

#include "runtime/ops/cuda/access.h"

namespace modular::cuda {
namespace {

constexpr int kTile = 64;  // rows and columns that a block converts
constexpr int kVector = kWidth<__nv_bfloat16>;

struct alignas(8) Eight {
  unsigned char bytes[8];
};
struct alignas(16) Sixteen {
  unsigned char bytes[16];
};

// Non-negative floats are ordered like their bits.
__global__ void largest(const __nv_bfloat16* x, int64_t vectors, unsigned* bits) {
  float maximum = 0.0f;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += step) {
    float values[kVector];
    load(x + i * kVector, values);
    for (const float value : values) maximum = fmaxf(maximum, fabsf(value));
  }
  maximum = reduce_block<Largest>(maximum);
  if (threadIdx.x == 0) atomicMax(bits, __float_as_uint(maximum));
}

template <bool is_gradient>
__device__ inline unsigned char convert(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, is_gradient ? __NV_E5M2 : __NV_E4M3);
}

// A block converts a tile and transposes it in shared memory.
template <bool is_gradient>
__global__ void to_float8(const __nv_bfloat16* x, const float* largest, unsigned char* values,
                          unsigned char* transposed, float* scale, int64_t rows, int64_t columns) {
  __shared__ unsigned char tile[kTile][kTile + 4];
  constexpr float kLargest = is_gradient ? 57344.0f : 448.0f;
  const float by = *largest > 0.0f ? *largest / kLargest : 1.0f, inverse = 1.0f / by;
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = by;
  const int64_t tiles_per_row = (columns + kTile - 1) / kTile;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) / tiles_per_row * kTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) % tiles_per_row * kTile;
  for (int i = threadIdx.x; i < kTile * kTile / kVector; i += blockDim.x) {
    const int row = i / (kTile / kVector), column = i % (kTile / kVector) * kVector;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    const int64_t at = (first_row + row) * columns + first_column + column;
    float loaded[kVector];
    load(x + at, loaded);
    Eight converted;
    for (int k = 0; k < kVector; ++k) {
      converted.bytes[k] = convert<is_gradient>(loaded[k] * inverse);
      tile[row][column + k] = converted.bytes[k];
    }
    if (values) *reinterpret_cast<Eight*>(values + at) = converted;
  }
  if (!transposed) return;
  __syncthreads();
  constexpr int kRows = sizeof(Sixteen);
  for (int i = threadIdx.x; i < kTile * kTile / kRows; i += blockDim.x) {
    const int column = i / (kTile / kRows), row = i % (kTile / kRows) * kRows;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    Sixteen column_bytes;
    for (int k = 0; k < kRows; ++k) column_bytes.bytes[k] = tile[row + k][column];
    *reinterpret_cast<Sixteen*>(transposed + (first_column + column) * rows + first_row + row) = column_bytes;
  }
}

}  // namespace

void launch_largest(const __nv_bfloat16* x, int64_t count, float* found, cudaStream_t stream) {
  const int64_t vectors = count / kVector, blocks = (vectors + kThreads - 1) / kThreads;
  const unsigned most = 1056;  // eight per multiprocessor of a large GPU
  cuda::largest<<<static_cast<unsigned>(blocks < most ? blocks : most), kThreads, 0, stream>>>(
      x, vectors, reinterpret_cast<unsigned*>(found));
}

void launch_to_float8(bool is_gradient, const __nv_bfloat16* x, const float* largest, unsigned char* values,
                      unsigned char* transposed, float* scale, int64_t rows, int64_t columns, cudaStream_t stream) {
  const int64_t tiles = (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
  const auto kernel = is_gradient ? cuda::to_float8<true> : cuda::to_float8<false>;
  kernel<<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(x, largest, values, transposed, scale, rows, columns);
}

}  // namespace modular::cuda
