
#include <type_traits>

#include "runtime/ops/cuda/access.h"
#include "runtime/ops/cuda/kernels.h"

namespace modular::cuda {

// RMSNorm and LayerNorm for rows of any length and alignment, which are read in loops, and helpers shared with the
// kernels below, which keep rows in registers.

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

// RMSNorm and LayerNorm. Rows are read once and kept in registers, and the backward computes all gradients in one pass.
// Rows that are too long for that, or not aligned to 16 bytes, are read in loops by the kernels above.

namespace {

// The part of a row that one of its `lanes` threads keeps: `eights` groups of eight elements, in vectors, each adjacent
// to the vectors of neighboring threads.
template <class T, int lanes, int eights>
struct Part {
  static constexpr int kVector = kWidth<T>, kVectors = eights * 8 / kVector;
  static constexpr int kFull = (eights - 1) * 8 / kVector;  // vectors that are full in every row
  using Values = float[kVectors][kVector];
  using Bytes = uint4[kVectors];

  // Calls body(vector, column). Unrolled, because registers cannot be indexed.
  template <class Body>
  static __device__ void each(int64_t hidden, const Body& body) {
#pragma unroll
    for (int vector = 0; vector < kVectors; ++vector) {
      const int column = (vector * lanes + static_cast<int>(threadIdx.x % lanes)) * kVector;
      if (vector < kFull || column < hidden) body(vector, column);
    }
  }
  // Only moves bytes, so that loads do not wait for each other.
  static __device__ void load(const T* row, int64_t hidden, Bytes& bytes) {
    each(hidden, [&](int vector, int column) { bytes[vector] = *reinterpret_cast<const uint4*>(row + column); });
  }
};

template <class T, class W, bool centered, int lanes, int eights>
__global__ void __launch_bounds__(kThreads) norm(Forward<T, W> args) {
  using Own = Part<T, lanes, eights>;
  const int64_t row = first_row<lanes>(), hidden = args.hidden;
  if (row >= args.rows) return;
  const T* x = args.x + row * hidden;
  T* y = args.y + row * hidden;
  typename Own::Bytes bytes = {};
  Own::load(x, hidden, bytes);
  typename Own::Values values;
  Own::each(hidden, [&](int vector, int) { unpack(x, bytes[vector], values[vector]); });
  float mean[1] = {}, square[1] = {};
  if constexpr (centered) {
    Own::each(hidden, [&](int vector, int) {
      for (const float value : values[vector]) mean[0] += value;
    });
    sum_over_row<lanes>(mean);
    mean[0] /= static_cast<float>(hidden);
  }
  Own::each(hidden, [&](int vector, int) {
    for (const float value : values[vector]) square[0] += (value - mean[0]) * (value - mean[0]);
  });
  sum_over_row<lanes>(square);
  const float inverse = rsqrtf(square[0] / static_cast<float>(hidden) + args.eps);
  if (threadIdx.x % lanes == 0) keep_statistics<centered>(args, row, mean[0], inverse);
  Own::each(hidden, [&](int vector, int column) {
    normalize<centered>(args, column, mean[0], inverse, values[vector]);
    store(y + column, values[vector]);
  });
}

// Sums the block's columns over its warps, in warp order, into `to` [hidden].
template <class T, int lanes, int eights>
__device__ void store_column_sums(const typename Part<T, lanes, eights>::Values& sums, float* to, int64_t hidden) {
  using Own = Part<T, lanes, eights>;
  if constexpr (lanes == kThreads) {
    Own::each(hidden, [&](int vector, int column) { store(to + column, sums[vector]); });
  } else {
    constexpr int kColumns = kWarp * Own::kVector;
    __shared__ float warp_sums[kThreads / kWarp][kColumns];
#pragma unroll
    for (int vector = 0; vector < Own::kVectors; ++vector) {
      __syncthreads();  // until the previous sums have been read
      for (int k = 0; k < Own::kVector; ++k)
        warp_sums[threadIdx.x / kWarp][threadIdx.x % kWarp * Own::kVector + k] = sums[vector][k];
      __syncthreads();
      const int own = static_cast<int>(threadIdx.x), column = vector * kColumns + own;
      if (own >= kColumns || column >= hidden) continue;
      float sum = 0.0f;
      for (const auto& columns : warp_sums) sum += columns[own];
      to[column] = sum;
    }
  }
}

// A block iterates over rows with a stride of all blocks' rows; each thread sums the same columns of all its rows.
template <class T, class W, bool centered, int lanes, int eights>
__global__ void __launch_bounds__(kThreads) norm_backward(Backward<T, W> args) {
  using Own = Part<T, lanes, eights>;
  const int64_t hidden = args.hidden, step = static_cast<int64_t>(gridDim.x) * (kThreads / lanes);
  typename Own::Values weight_sums = {}, bias_sums = {};
  for (int64_t row = first_row<lanes>(); row < args.rows; row += step) {
    const T *grad = args.grad + row * hidden, *x = args.x + row * hidden;
    T* dx = args.dx + row * hidden;
    typename Own::Bytes grad_bytes = {}, x_bytes = {};
    Own::load(grad, hidden, grad_bytes);
    Own::load(x, hidden, x_bytes);
    const float mean = centered ? args.mean[row] : 0.0f, inverse = args.inverse[row];
    float sums[1 + centered] = {};  // of upstream * normalized, and of upstream
    typename Own::Values upstream, normalized;
    Own::each(hidden, [&](int vector, int column) {
      unpack(grad, grad_bytes[vector], upstream[vector]);
      unpack(x, x_bytes[vector], normalized[vector]);
      float weights[Own::kVector];
      load_or(1.0f, args.weight, column, weights);
      for (int k = 0; k < Own::kVector; ++k) {
        float &above = upstream[vector][k], &value = normalized[vector][k];
        value = (value - mean) * inverse;
        weight_sums[vector][k] += above * value;
        if constexpr (centered) bias_sums[vector][k] += above;
        above *= weights[k];
        sums[0] += above * value;
        if constexpr (centered) sums[centered] += above;
      }
    });
    sum_over_row<lanes>(sums);
    for (float& sum : sums) sum /= static_cast<float>(hidden);
    Own::each(hidden, [&](int vector, int column) {
      for (int k = 0; k < Own::kVector; ++k) {
        const float above = upstream[vector][k] - (centered ? sums[centered] : 0.0f);
        normalized[vector][k] = inverse * (above - normalized[vector][k] * sums[0]);
      }
      store(dx + column, normalized[vector]);
    });
  }
  float* partial = args.partial + blockIdx.x * hidden;
  store_column_sums<T, lanes, eights>(weight_sums, partial, hidden);
  if constexpr (centered) store_column_sums<T, lanes, eights>(bias_sums, partial + gridDim.x * hidden, hidden);
}

template <int value>
using Constant = std::integral_constant<int, value>;

constexpr int64_t kWarpElements = 1024, kBlockElements = 8192;  // longest rows in registers

int lanes_for(int64_t hidden) { return hidden <= kWarpElements ? kWarp : kThreads; }

/// Number of groups of eight elements that each thread of a row keeps.
int eights_for(int64_t hidden) {
  const int64_t row_group = 8 * lanes_for(hidden);
  return static_cast<int>((hidden + row_group - 1) / row_group);
}

// Calls in_registers(lanes, eights) or in_loops(lanes, width), all constants, for rows of `hidden` elements.
template <class T, class InRegisters, class InLoops>
void with_row_shape(int64_t hidden, bool aligned, const InRegisters& in_registers, const InLoops& in_loops) {
  const auto with_lanes = [&](auto lanes) {
    if (!aligned || hidden % kWidth<T> != 0) return in_loops(lanes, Constant<1>());
    switch (eights_for(hidden)) {
      case 1:
        return in_registers(lanes, Constant<1>());
      case 2:
        return in_registers(lanes, Constant<2>());
      case 3:
        return in_registers(lanes, Constant<3>());
      default:
        return in_registers(lanes, Constant<4>());
    }
  };
  if (hidden <= kWarpElements) {
    with_lanes(Constant<kWarp>());
  } else if (hidden <= kBlockElements) {
    with_lanes(Constant<kThreads>());
  } else if (aligned && hidden % kWidth<T> == 0) {
    in_loops(Constant<kThreads>(), Constant<kWidth<T>>());
  } else {
    in_loops(Constant<kThreads>(), Constant<1>());
  }
}

unsigned blocks_for_rows(int64_t rows, int lanes) {
  const int64_t each = kThreads / lanes;
  return static_cast<unsigned>((rows + each - 1) / each);
}

template <bool centered, class T, class W>
void launch(const Forward<T, W>& args, cudaStream_t stream) {
  if (!args.rows) return;
  with_row_shape<T>(
      args.hidden, are_aligned(args.x, args.weight, args.bias, args.y),
      [&](auto lanes, auto eights) {
        norm<T, W, centered, lanes.value, eights.value>
            <<<blocks_for_rows(args.rows, lanes.value), kThreads, 0, stream>>>(args);
      },
      [&](auto lanes, auto width) {
        norm_in_loops<T, W, centered, width.value, lanes.value>
            <<<blocks_for_rows(args.rows, lanes.value), kThreads, 0, stream>>>(args);
      });
}

template <bool centered, class T, class W>
void launch(const Backward<T, W>& args, int64_t count, cudaStream_t stream) {
  if (!args.hidden) return;
  const auto blocks = static_cast<unsigned>(count);
  with_row_shape<T>(
      args.hidden, are_aligned(args.grad, args.x, args.weight, args.dx, args.partial),
      [&](auto lanes, auto eights) {
        norm_backward<T, W, centered, lanes.value, eights.value><<<blocks, kThreads, 0, stream>>>(args);
      },
      [&](auto lanes, auto width) {
        if (args.rows)
          norm_backward_in_loops<T, W, centered, width.value, lanes.value>
              <<<blocks_for_rows(args.rows, lanes.value), kThreads, 0, stream>>>(args);
        const dim3 pieces(static_cast<unsigned>((args.hidden + kThreads - 1) / kThreads), blocks);
        norm_column_sums<T, W, centered><<<pieces, kThreads, 0, stream>>>(args);
      });
}

// Calls run(weight) with the weight as a typed pointer.
template <class T, class Run>
void with_weight(const void* weight, bool wide, const Run& run) {
  if (wide) {
    run(static_cast<const float*>(weight));
  } else {
    run(static_cast<const T*>(weight));
  }
}

}  // namespace

int64_t norm_backward_blocks(bool is_layer_norm, int64_t rows, int64_t hidden) {
  // As many blocks as fit into a multiprocessor's registers, by the number of eights per thread.
  constexpr int64_t kMultiprocessors = 132, kRmsNormBlocks[] = {1, 4, 3, 2, 2}, kLayerNormBlocks[] = {1, 4, 2, 2, 1};
  const int eights = hidden <= kBlockElements ? eights_for(hidden) : 0;
  const int64_t most = kMultiprocessors * (is_layer_norm ? kLayerNormBlocks : kRmsNormBlocks)[eights];
  const int64_t blocks = blocks_for_rows(rows, lanes_for(hidden));
  return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

template <class T>
void Launch<T>::rms_norm(const T* x, const void* weight, bool wide, T* y, float* inverse_rms, int64_t rows,
                         int64_t hidden, float eps, cudaStream_t stream) {
  with_weight<T>(weight, wide, [&](const auto* typed) {
    using W = std::decay_t<decltype(*typed)>;
    launch<false>(Forward<T, W>{x, typed, nullptr, y, nullptr, inverse_rms, rows, hidden, eps}, stream);
  });
}

template <class T>
void Launch<T>::rms_norm_backward(const T* grad, const T* x, const void* weight, bool wide, const float* inverse_rms,
                                  T* dx, float* partial, int64_t blocks, int64_t rows, int64_t hidden,
                                  cudaStream_t stream) {
  with_weight<T>(weight, wide, [&](const auto* typed) {
    using W = std::decay_t<decltype(*typed)>;
    launch<false>(Backward<T, W>{grad, x, typed, nullptr, inverse_rms, dx, partial, rows, hidden}, blocks, stream);
  });
}

template <class T>
void Launch<T>::layer_norm(const T* x, const T* weight, const T* bias, T* y, float* mean, float* inverse_deviation,
                           int64_t rows, int64_t hidden, float eps, cudaStream_t stream) {
  launch<true>(Forward<T, T>{x, weight, bias, y, mean, inverse_deviation, rows, hidden, eps}, stream);
}

template <class T>
void Launch<T>::layer_norm_backward(const T* grad, const T* x, const T* weight, const float* mean,
                                    const float* inverse_deviation, T* dx, float* partial, int64_t blocks, int64_t rows,
                                    int64_t hidden, cudaStream_t stream) {
  launch<true>(Backward<T, T>{grad, x, weight, mean, inverse_deviation, dx, partial, rows, hidden}, blocks, stream);
}

template struct Launch<float>;
template struct Launch<__nv_bfloat16>;

}  // namespace modular::cuda
