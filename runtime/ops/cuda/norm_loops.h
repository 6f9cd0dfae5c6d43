// RMSNorm and LayerNorm for rows of any length and alignment, which are read in loops, and helpers shared with the
// kernels that keep rows in registers (norms.cu). For nvcc.
#pragma once

#include <type_traits>

#include "runtime/ops/cuda/access.h"

namespace modular::cuda {
namespace {

// Arguments of both norms: LayerNorm is `centered` on the mean and has a bias. W is the weight's type.
template <class T, class W>
struct Forward {
  const T* x;
  const W *weight, *bias;
  T* y;
  float *mean, *inverse;
  int64_t rows, hidden;
  float eps;
};

template <class T, class W>
struct Backward {
  const T *grad, *x;
  const W* weight;
  const float *mean, *inverse;
  T* dx;
  float* partial;
  int64_t rows, hidden;
};

template <int lanes>
__device__ int64_t first_row() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
}

// Sums each of `values` over the `lanes` threads that share a row: a warp or the block.
template <int lanes, int count>
__device__ void sum_over_row(float (&values)[count]) {
#pragma unroll
  for (float& value : values) value = reduce_warp<Sum>(value);
  if constexpr (lanes != kWarp) {
    __shared__ float warp_sums[count][kThreads / kWarp];
    __syncthreads();  // until the previous sums have been read
    if (threadIdx.x % kWarp == 0)
      for (int i = 0; i < count; ++i) warp_sums[i][threadIdx.x / kWarp] = values[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = 0.0f;
      for (const float sum : warp_sums[i]) values[i] += sum;
    }
  }
}

template <int width, class W>
__device__ void load_or(float fallback, const W* p, int64_t i, float (&values)[width]) {
  if (p) {
    load(p + i, values);
  } else {
    for (float& value : values) value = fallback;
  }
}

template <bool centered, class T, class W, int width>
__device__ void normalize(const Forward<T, W>& args, int64_t column, float mean, float inverse,
                          float (&values)[width]) {
  float weights[width], biases[width];
  load_or(1.0f, args.weight, column, weights);
  if constexpr (centered) load_or(0.0f, args.bias, column, biases);
  for (int k = 0; k < width; ++k) {
    const float normalized = (values[k] - mean) * inverse;
    values[k] = centered               ? normalized * weights[k] + biases[k]
                : std::is_same_v<T, W> ? weights[k] * round_to(args.x, normalized)
                                       : weights[k] * normalized;
  }
}

template <bool centered, class T, class W>
__device__ void keep_statistics(const Forward<T, W>& args, int64_t row, float mean, float inverse) {
  if constexpr (centered) args.mean[row] = mean;
  args.inverse[row] = inverse;
}

// `lanes` threads per row: a warp if rows are short, so that all threads of a block have work.
template <class T, class W, bool centered, int width, int lanes>
__global__ void norm_in_loops(Forward<T, W> args) {
  const int64_t row = first_row<lanes>(), hidden = args.hidden;
  if (row >= args.rows) return;
  const T* x = args.x + row * hidden;
  T* y = args.y + row * hidden;
  const auto each = [&](const auto& body) {
    for (int64_t i = threadIdx.x % lanes * width; i < hidden; i += lanes * width) {
      float values[width];
      load(x + i, values);
      body(i, values);
    }
  };
  float mean[1] = {}, square[1] = {};
  if constexpr (centered) {
    each([&](int64_t, const auto& values) {
      for (const float value : values) mean[0] += value;
    });
    sum_over_row<lanes>(mean);
    mean[0] /= static_cast<float>(hidden);
  }
  each([&](int64_t, const auto& values) {
    for (const float value : values) square[0] += (value - mean[0]) * (value - mean[0]);
  });
  sum_over_row<lanes>(square);
  const float inverse = rsqrtf(square[0] / static_cast<float>(hidden) + args.eps);
  if (threadIdx.x % lanes == 0) keep_statistics<centered>(args, row, mean[0], inverse);
  each([&](int64_t i, auto& values) {
    normalize<centered>(args, i, mean[0], inverse, values);
    store(y + i, values);
  });
}

template <class T, class W, bool centered, int width, int lanes>
__global__ void norm_backward_in_loops(Backward<T, W> args) {
  const int64_t row = first_row<lanes>(), hidden = args.hidden;
  if (row >= args.rows) return;
  const T *grad = args.grad + row * hidden, *x = args.x + row * hidden;
  T* dx = args.dx + row * hidden;
  const float mean = centered ? args.mean[row] : 0.0f, inverse = args.inverse[row];
  const auto each = [&](const auto& body) {
    for (int64_t i = threadIdx.x % lanes * width; i < hidden; i += lanes * width) {
      float upstream[width], values[width], weights[width];
      load(grad + i, upstream);
      load(x + i, values);
      load_or(1.0f, args.weight, i, weights);
      for (int k = 0; k < width; ++k) upstream[k] *= weights[k], values[k] = (values[k] - mean) * inverse;
      body(i, upstream, values);
    }
  };
  float sums[1 + centered] = {};
  each([&](int64_t, const auto& upstream, const auto& values) {
    for (int k = 0; k < width; ++k) {
      sums[0] += upstream[k] * values[k];
      if constexpr (centered) sums[centered] += upstream[k];
    }
  });
  sum_over_row<lanes>(sums);
  for (float& sum : sums) sum /= static_cast<float>(hidden);
  each([&](int64_t i, const auto& upstream, auto& values) {
    for (int k = 0; k < width; ++k)
      values[k] = inverse * (upstream[k] - (centered ? sums[centered] : 0.0f) - values[k] * sums[0]);
    store(dx + i, values);
  });
}

// A thread sums one column over the rows of one block of `partial`; adjacent threads read adjacent elements.
template <class T, class W, bool centered>
__global__ void norm_column_sums(Backward<T, W> args) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, hidden = args.hidden;
  if (column >= hidden) return;
  float weight_sum = 0.0f, bias_sum = 0.0f;
  for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const float upstream = load(args.grad + row * hidden + column), value = load(args.x + row * hidden + column);
    weight_sum += upstream * (value - (centered ? args.mean[row] : 0.0f)) * args.inverse[row];
    bias_sum += upstream;
  }
  args.partial[blockIdx.y * hidden + column] = weight_sum;
  if constexpr (centered) args.partial[(gridDim.y + blockIdx.y) * hidden + column] = bias_sum;
}

}  // namespace
}  // namespace modular::cuda
