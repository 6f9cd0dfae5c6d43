// RMSNorm and LayerNorm of rows of any length and at any address, which are read in loops; and what these share with
// those of rows that registers hold (norms.cu). For nvcc.
#pragma once

#include <type_traits>

#include "runtime/ops/cuda/access.h"

namespace modular::cuda {
namespace {

// What both norms share: LayerNorm is `centered` on the mean and has a bias. W is the weight's type.
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

// Sums each of `values` over the `lanes` threads that share a row: a warp's, or the block's.
template <int lanes, int count>
__device__ void sum_over_row(float (&values)[count]) {
#pragma unroll
  for (float& value : values) value = reduce_warp<Sum>(value);
  if constexpr (lanes != kWarp) {
    __shared__ float of_warps[count][kThreads / kWarp];
    __syncthreads();  // the sums before these have been read
    if (threadIdx.x % kWarp == 0)
      for (int i = 0; i < count; ++i) of_warps[i][threadIdx.x / kWarp] = values[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = 0.0f;
      for (const float sum : of_warps[i]) values[i] += sum;
    }
  }
}

template <int width, class W>
__device__ void load_or(float otherwise, const W* p, int64_t i, float (&values)[width]) {
  if (p) {
    load(p + i, values);
  } else {
    for (float& value : values) value = otherwise;
  }
}

template <bool centered, class T, class W, int width>
__device__ void normalize(const Forward<T, W>& of, int64_t column, float mean, float inverse, float (&values)[width]) {
  float weights[width], biases[width];
  load_or(1.0f, of.weight, column, weights);
  if constexpr (centered) load_or(0.0f, of.bias, column, biases);
  for (int k = 0; k < width; ++k) {
    const float normalized = (values[k] - mean) * inverse;
    values[k] = centered               ? normalized * weights[k] + biases[k]
                : std::is_same_v<T, W> ? weights[k] * round_to(of.x, normalized)
                                       : weights[k] * normalized;
  }
}

template <bool centered, class T, class W>
__device__ void keep_statistics(const Forward<T, W>& of, int64_t row, float mean, float inverse) {
  if constexpr (centered) of.mean[row] = mean;
  of.inverse[row] = inverse;
}

// `lanes` threads a row: a warp where rows are short, so that all of a block have something to do.
template <class T, class W, bool centered, int width, int lanes>
__global__ void norm_in_loops(Forward<T, W> of) {
  const int64_t row = first_row<lanes>(), hidden = of.hidden;
  if (row >= of.rows) return;
  const T* x = of.x + row * hidden;
  T* y = of.y + row * hidden;
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
  const float inverse = rsqrtf(square[0] / static_cast<float>(hidden) + of.eps);
  if (threadIdx.x % lanes == 0) keep_statistics<centered>(of, row, mean[0], inverse);
  each([&](int64_t i, auto& values) {
    normalize<centered>(of, i, mean[0], inverse, values);
    store(y + i, values);
  });
}

template <class T, class W, bool centered, int width, int lanes>
__global__ void norm_backward_in_loops(Backward<T, W> of) {
  const int64_t row = first_row<lanes>(), hidden = of.hidden;
  if (row >= of.rows) return;
  const T *grad = of.grad + row * hidden, *x = of.x + row * hidden;
  T* dx = of.dx + row * hidden;
  const float mean = centered ? of.mean[row] : 0.0f, inverse = of.inverse[row];
  const auto each = [&](const auto& body) {
    for (int64_t i = threadIdx.x % lanes * width; i < hidden; i += lanes * width) {
      float upstream[width], values[width], weights[width];
      load(grad + i, upstream);
      load(x + i, values);
      load_or(1.0f, of.weight, i, weights);
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

// A thread sums one column over the rows of one block of `partial`: neighbours read neighbouring elements.
template <class T, class W, bool centered>
__global__ void norm_column_sums(Backward<T, W> of) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, hidden = of.hidden;
  if (column >= hidden) return;
  float of_weight = 0.0f, of_bias = 0.0f;
  for (int64_t row = blockIdx.y; row < of.rows; row += gridDim.y) {
    const float upstream = load(of.grad + row * hidden + column), value = load(of.x + row * hidden + column);
    of_weight += upstream * (value - (centered ? of.mean[row] : 0.0f)) * of.inverse[row];
    of_bias += upstream;
  }
  of.partial[blockIdx.y * hidden + column] = of_weight;
  if constexpr (centered) of.partial[(gridDim.y + blockIdx.y) * hidden + column] = of_bias;
}

}  // namespace
}  // namespace modular::cuda
