// RMSNorm and LayerNorm. Rows are read once and kept in registers, and the backward finds all gradients in one pass;
// but rows that are too long for that, or do not lie on 16 bytes, are read in loops (norm_loops.h).
#include <type_traits>

#include "runtime/ops/cuda/access.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/norm_loops.h"

namespace modular::cuda {
namespace {

// The part of a row that one of its `lanes` threads keeps: as many elements as `eights` eights, in vectors, each beside
// those of the thread's neighbours.
template <class T, int lanes, int eights>
struct Part {
  static constexpr int kVector = kWidth<T>, kVectors = eights * 8 / kVector;
  static constexpr int kFull = (eights - 1) * 8 / kVector;  // vectors that no row is too short for
  using Values = float[kVectors][kVector];
  using Bytes = uint4[kVectors];

  // Calls body(vector, column). Unrolled, as registers have no index.
  template <class Body>
  static __device__ void each(int64_t hidden, const Body& body) {
#pragma unroll
    for (int vector = 0; vector < kVectors; ++vector) {
      const int column = (vector * lanes + static_cast<int>(threadIdx.x % lanes)) * kVector;
      if (vector < kFull || column < hidden) body(vector, column);
    }
  }
  // Only moves bytes, so that no load waits for the one before it.
  static __device__ void load(const T* row, int64_t hidden, Bytes& bytes) {
    each(hidden, [&](int vector, int column) { bytes[vector] = *reinterpret_cast<const uint4*>(row + column); });
  }
};

template <class T, class W, bool centered, int lanes, int eights>
__global__ void __launch_bounds__(kThreads) norm(Forward<T, W> of) {
  using Own = Part<T, lanes, eights>;
  const int64_t row = first_row<lanes>(), hidden = of.hidden;
  if (row >= of.rows) return;
  const T* x = of.x + row * hidden;
  T* y = of.y + row * hidden;
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
  const float inverse = rsqrtf(square[0] / static_cast<float>(hidden) + of.eps);
  if (threadIdx.x % lanes == 0) keep_statistics<centered>(of, row, mean[0], inverse);
  Own::each(hidden, [&](int vector, int column) {
    normalize<centered>(of, column, mean[0], inverse, values[vector]);
    store(y + column, values[vector]);
  });
}

// Sums the block's columns over its warps, in the warps' order, into `to` [hidden].
template <class T, int lanes, int eights>
__device__ void store_column_sums(const typename Part<T, lanes, eights>::Values& sums, float* to, int64_t hidden) {
  using Own = Part<T, lanes, eights>;
  if constexpr (lanes == kThreads) {
    Own::each(hidden, [&](int vector, int column) { store(to + column, sums[vector]); });
  } else {
    constexpr int kColumns = kWarp * Own::kVector;
    __shared__ float of_warps[kThreads / kWarp][kColumns];
#pragma unroll
    for (int vector = 0; vector < Own::kVectors; ++vector) {
      __syncthreads();  // the sums before these have been read
      for (int k = 0; k < Own::kVector; ++k)
        of_warps[threadIdx.x / kWarp][threadIdx.x % kWarp * Own::kVector + k] = sums[vector][k];
      __syncthreads();
      const int own = static_cast<int>(threadIdx.x), column = vector * kColumns + own;
      if (own >= kColumns || column >= hidden) continue;
      float sum = 0.0f;
      for (const auto& of_warp : of_warps) sum += of_warp[own];
      to[column] = sum;
    }
  }
}

// A block walks rows, `gridDim.x` blocks' apart; each thread sums the same columns of all that it meets.
template <class T, class W, bool centered, int lanes, int eights>
__global__ void __launch_bounds__(kThreads) norm_backward(Backward<T, W> of) {
  using Own = Part<T, lanes, eights>;
  const int64_t hidden = of.hidden, step = static_cast<int64_t>(gridDim.x) * (kThreads / lanes);
  typename Own::Values of_weight = {}, of_bias = {};
  for (int64_t row = first_row<lanes>(); row < of.rows; row += step) {
    const T *grad = of.grad + row * hidden, *x = of.x + row * hidden;
    T* dx = of.dx + row * hidden;
    typename Own::Bytes grad_bytes = {}, x_bytes = {};
    Own::load(grad, hidden, grad_bytes);
    Own::load(x, hidden, x_bytes);
    const float mean = centered ? of.mean[row] : 0.0f, inverse = of.inverse[row];
    float sums[1 + centered] = {};  // along the normalized values, and of all
    typename Own::Values upstream, normalized;
    Own::each(hidden, [&](int vector, int column) {
      unpack(grad, grad_bytes[vector], upstream[vector]);
      unpack(x, x_bytes[vector], normalized[vector]);
      float weights[Own::kVector];
      load_or(1.0f, of.weight, column, weights);
      for (int k = 0; k < Own::kVector; ++k) {
        float &above = upstream[vector][k], &value = normalized[vector][k];
        value = (value - mean) * inverse;
        of_weight[vector][k] += above * value;
        if constexpr (centered) of_bias[vector][k] += above;
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
  float* partial = of.partial + blockIdx.x * hidden;
  store_column_sums<T, lanes, eights>(of_weight, partial, hidden);
  if constexpr (centered) store_column_sums<T, lanes, eights>(of_bias, partial + gridDim.x * hidden, hidden);
}

template <int value>
using Constant = std::integral_constant<int, value>;

constexpr int64_t kMostOfAWarp = 1024, kMostOfABlock = 8192;  // elements of a row in registers

int lanes_for(int64_t hidden) { return hidden <= kMostOfAWarp ? kWarp : kThreads; }

/// How many eights of a row each of its threads keeps.
int eights_for(int64_t hidden) {
  const int64_t of_all = 8 * lanes_for(hidden);
  return static_cast<int>((hidden + of_all - 1) / of_all);
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
  if (hidden <= kMostOfAWarp) {
    with_lanes(Constant<kWarp>());
  } else if (hidden <= kMostOfABlock) {
    with_lanes(Constant<kThreads>());
  } else if (aligned && hidden % kWidth<T> == 0) {
    in_loops(Constant<kThreads>(), Constant<kWidth<T>>());
  } else {
    in_loops(Constant<kThreads>(), Constant<1>());
  }
}

unsigned blocks_of_rows(int64_t rows, int lanes) {
  const int64_t each = kThreads / lanes;
  return static_cast<unsigned>((rows + each - 1) / each);
}

template <bool centered, class T, class W>
void launch(const Forward<T, W>& of, cudaStream_t stream) {
  if (!of.rows) return;
  with_row_shape<T>(
      of.hidden, are_aligned(of.x, of.weight, of.bias, of.y),
      [&](auto lanes, auto eights) {
        norm<T, W, centered, lanes.value, eights.value>
            <<<blocks_of_rows(of.rows, lanes.value), kThreads, 0, stream>>>(of);
      },
      [&](auto lanes, auto width) {
        norm_in_loops<T, W, centered, width.value, lanes.value>
            <<<blocks_of_rows(of.rows, lanes.value), kThreads, 0, stream>>>(of);
      });
}

template <bool centered, class T, class W>
void launch(const Backward<T, W>& of, int64_t count, cudaStream_t stream) {
  if (!of.hidden) return;
  const auto blocks = static_cast<unsigned>(count);
  with_row_shape<T>(
      of.hidden, are_aligned(of.grad, of.x, of.weight, of.dx, of.partial),
      [&](auto lanes, auto eights) {
        norm_backward<T, W, centered, lanes.value, eights.value><<<blocks, kThreads, 0, stream>>>(of);
      },
      [&](auto lanes, auto width) {
        if (of.rows)
          norm_backward_in_loops<T, W, centered, width.value, lanes.value>
              <<<blocks_of_rows(of.rows, lanes.value), kThreads, 0, stream>>>(of);
        const dim3 pieces(static_cast<unsigned>((of.hidden + kThreads - 1) / kThreads), blocks);
        norm_column_sums<T, W, centered><<<pieces, kThreads, 0, stream>>>(of);
      });
}

// Calls run(weight) with the weight as what it is.
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
  // As many as a multiprocessor's registers hold, by the eights that a thread keeps.
  constexpr int64_t kMultiprocessors = 132, kOfRmsNorm[] = {1, 4, 3, 2, 2}, kOfLayerNorm[] = {1, 4, 2, 2, 1};
  const int eights = hidden <= kMostOfABlock ? eights_for(hidden) : 0;
  const int64_t most = kMultiprocessors * (is_layer_norm ? kOfLayerNorm : kOfRmsNorm)[eights];
  const int64_t blocks = blocks_of_rows(rows, lanes_for(hidden));
  return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

template <class T>
void Launch<T>::rms_norm(const T* x, const void* weight, bool wide, T* y, float* inverse_rms, int64_t rows,
                         int64_t hidden, float eps, cudaStream_t stream) {
  with_weight<T>(weight, wide, [&](const auto* of_type) {
    using W = std::decay_t<decltype(*of_type)>;
    launch<false>(Forward<T, W>{x, of_type, nullptr, y, nullptr, inverse_rms, rows, hidden, eps}, stream);
  });
}

template <class T>
void Launch<T>::rms_norm_backward(const T* grad, const T* x, const void* weight, bool wide, const float* inverse_rms,
                                  T* dx, float* partial, int64_t blocks, int64_t rows, int64_t hidden,
                                  cudaStream_t stream) {
  with_weight<T>(weight, wide, [&](const auto* of_type) {
    using W = std::decay_t<decltype(*of_type)>;
    launch<false>(Backward<T, W>{grad, x, of_type, nullptr, inverse_rms, dx, partial, rows, hidden}, blocks, stream);
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
