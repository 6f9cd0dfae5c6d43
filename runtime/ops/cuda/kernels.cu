#include <cassert>

#include "runtime/ops/cuda/access.h"
#include "runtime/ops/cuda/kernels.h"

namespace modular::cuda {
namespace {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
// gelu_tanh(x) = x * sigmoid(gelu_inner(x)).
__device__ inline float gelu_inner(float x) { return x * (1.5957691216057308f + 0.071354816272604305f * x * x); }
__device__ inline float gelu_inner_slope(float x) { return 1.5957691216057308f + 0.21406444881781292f * x * x; }

// Number of Philox counters for a row of columns from `first` on: sixteen per 64 columns.
__host__ __device__ inline int64_t count_counters(int64_t first, int64_t columns) {
  return 16 * ((first + columns + 63) / 64 - first / 64);
}

// Philox4x32-10 (Salmon et al.).
__device__ inline void philox(uint32_t (&counter)[4], uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint32_t even = counter[0] * 0xD2511F53u, even_high = __umulhi(counter[0], 0xD2511F53u);
    const uint32_t odd = counter[2] * 0xCD9E8D57u, odd_high = __umulhi(counter[2], 0xCD9E8D57u);
    counter[0] = odd_high ^ counter[1] ^ key0;
    counter[1] = odd;
    counter[2] = even_high ^ counter[3] ^ key1;
    counter[3] = even;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// A thread computes the four words of one counter, for four columns that are 16 apart.
template <class T>
__global__ void dropout(const T* x, T* y, Drop drop, int64_t samples, int64_t rows, int64_t columns) {
  const int64_t per_row = count_counters(drop.first_column, columns), first = 16 * (drop.first_column / 64);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < samples * rows * per_row;
       i += step) {
    const int64_t row = i / per_row, block = first + i % per_row;
    uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(drop.first_row + row % rows),
                         static_cast<uint32_t>(drop.samples[row / rows]), 0};
    philox(words, drop.key);
    const int64_t column = 64 * (block / 16) + block % 16 - drop.first_column;
    for (int word = 0; word < 4; ++word) {
      const int64_t at = column + 16 * word;
      if (at < 0 || at >= columns) continue;
      store(y + row * columns + at, words[word] >= drop.threshold ? load(x + row * columns + at) * drop.scale : 0.0f);
    }
  }
}

// The remainder after all vectors is processed with one thread per element.
template <class T, bool is_silu, int width>
__global__ void gated(const T* gate, const T* up, T* y, int64_t count) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x, vectors = count / width;
  const auto activate = [&](float g, float u) { return round_to(gate, g * sigmoid(is_silu ? g : gelu_inner(g))) * u; };
  for (int64_t i = first; i < vectors; i += step) {
    float gates[width], ups[width];
    load(gate + i * width, gates);
    load(up + i * width, ups);
    for (int k = 0; k < width; ++k) gates[k] = activate(gates[k], ups[k]);
    store(y + i * width, gates);
  }
  for (int64_t i = vectors * width + first; i < count; i += step) store(y + i, activate(load(gate + i), load(up + i)));
}

template <class T, bool is_silu, int width>
__global__ void gated_backward(const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x, vectors = count / width;
  // Replaces g and u with the gradients of the gate and of the gated value.
  const auto differentiate = [&](float upstream, float& g, float& u) {
    const float s = sigmoid(is_silu ? g : gelu_inner(g));
    const float slope = s + g * s * (1.0f - s) * (is_silu ? 1.0f : gelu_inner_slope(g));
    const float gate_gradient = upstream * u * slope;
    u = upstream * (g * s);
    g = gate_gradient;
  };
  for (int64_t i = first; i < vectors; i += step) {
    float upstream[width], gates[width], ups[width];
    load(grad + i * width, upstream);
    load(gate + i * width, gates);
    load(up + i * width, ups);
    for (int k = 0; k < width; ++k) differentiate(upstream[k], gates[k], ups[k]);
    store(dgate + i * width, gates);
    store(dup + i * width, ups);
  }
  for (int64_t i = vectors * width + first; i < count; i += step) {
    float g = load(gate + i), u = load(up + i);
    differentiate(load(grad + i), g, u);
    store(dgate + i, g);
    store(dup + i, u);
  }
}

// A thread rotates `width` pairs of one head's vector. Index is only as wide as the number of work items requires:
// 64-bit divisions take several times as long as 32-bit ones.
template <class T, int width, class Index>
__global__ void rotary(const T* x, const T* cos, const T* sin, T* y, RotaryShape shape, float direction) {
  const int64_t half = shape.dim / 2;
  const Index groups = static_cast<Index>(half / width), heads = static_cast<Index>(shape.heads);
  const Index seq = static_cast<Index>(shape.seq), count = static_cast<Index>(shape.batch) * seq * heads * groups;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index index = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; index < count; index += step) {
    const Index vector = index / groups, row = vector / heads, sequence = row / seq;
    const int64_t i = static_cast<int64_t>(index - vector * groups) * width;
    const int64_t head = vector - row * heads, position = row - sequence * seq;
    const T* from = x + sequence * shape.batch_stride + head * shape.head_stride + position * shape.seq_stride;
    const int64_t entry = sequence * shape.table_batch_stride + position * shape.dim;
    T* to = y + static_cast<int64_t>(vector) * shape.dim;
    // Forward: y1 = x1 c1 - x2 s1, y2 = x2 c2 + x1 s2. Its transpose swaps the sines and their sign.
    float sin_first[width], sin_second[width], cos_first[width], cos_second[width], first[width], second[width];
    load(sin + entry + (direction > 0.0f ? i : half + i), sin_first);
    load(sin + entry + (direction > 0.0f ? half + i : i), sin_second);
    load(cos + entry + i, cos_first);
    load(cos + entry + half + i, cos_second);
    load(from + i, first);
    load(from + half + i, second);
    for (int k = 0; k < width; ++k) {
      const float rotated = first[k] * cos_first[k] - direction * second[k] * sin_first[k];
      second[k] = second[k] * cos_second[k] + direction * first[k] * sin_second[k];
      first[k] = rotated;
    }
    store(to + i, first);
    store(to + half + i, second);
  }
}

// One block per row, which it reads once. Each thread keeps the sum of its exponentials relative to its largest logit,
// and rescales it when it finds a larger one (Milakov & Gimelshein, Online normalizer calculation for softmax).
template <class T>
__global__ void cross_entropy(const T* logits, const int64_t* targets, float* losses, float* log_sum_exp, int64_t vocab,
                              int64_t row_stride, int64_t ignored) {
  const int64_t row = blockIdx.x, target = targets[row];
  if (target == ignored) {
    if (threadIdx.x == 0) losses[row] = log_sum_exp[row] = 0.0f;
    return;
  }
  assert(target >= 0 && target < vocab);
  logits += row * row_stride;
  // Hidden classes have the logit -inf. If all logits are -inf, any other reference makes the exponentials 0.
  const auto above = [](float largest) { return largest == -INFINITY ? 0.0f : largest; };
  float largest = -INFINITY, sum = 0.0f;
  for_each_in_row(logits, vocab, [&](int64_t, const auto& values) {
    float now = largest;
    for (const float value : values) now = fmaxf(now, value);
    if (now > largest) sum *= expf(largest - now), largest = now;
    for (const float value : values) sum += expf(value - above(largest));
  });
  const float row_largest = reduce_block<Largest>(largest);
  const float normalizer = row_largest + logf(reduce_block<Sum>(sum * expf(above(largest) - above(row_largest))));
  if (threadIdx.x == 0) log_sum_exp[row] = normalizer, losses[row] = normalizer - load(logits + target);
}

template <class T>
__global__ void cross_entropy_backward(const float* grad, const T* logits, const int64_t* targets,
                                       const float* log_sum_exp, T* dlogits, int64_t vocab, int64_t row_stride,
                                       int64_t dlogits_row_stride, int64_t ignored) {
  const int64_t row = blockIdx.x, target = targets[row];
  logits += row * row_stride, dlogits += row * dlogits_row_stride;
  const float scale = target == ignored ? 0.0f : *grad, normalizer = log_sum_exp[row];
  const auto differentiate = [&](float logit) { return expf(logit - normalizer) * scale; };
  const auto differentiate_target = [&] { return (expf(load(logits + target) - normalizer) - 1.0f) * scale; };
  if (scale == 0.0f) {  // also where the logits are not finite
    for_each_in_row(dlogits, vocab, [&](int64_t first, auto& values) {
      for (float& value : values) value = 0.0f;
      store(dlogits + first, values);
    });
  } else if (misalignment(logits) != misalignment(dlogits)) {
    for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x)
      store(dlogits + i, i == target ? differentiate_target() : differentiate(load(logits + i)));
  } else {
    for_each_in_row(logits, vocab, [&](int64_t first, auto& values) {
      // Computed before the store, because the gradient may alias the logits.
      const bool has_target = first <= target && target < first + static_cast<int64_t>(sizeof(values) / sizeof(float));
      const float at_target = has_target ? differentiate_target() : 0.0f;
      for (float& value : values) value = differentiate(value);
      store(dlogits + first, values);
      if (has_target) store(dlogits + target, at_target);
    });
  }
}

// Enough blocks for any GPU; the kernels loop over the rest.
unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 8192 ? blocks : 8192);
}

}  // namespace

template <class T>
void Launch<T>::dropout(const T* x, T* y, const Drop& drop, int64_t samples, int64_t rows, int64_t columns,
                        cudaStream_t stream) {
  const int64_t counters = samples * rows * count_counters(drop.first_column, columns);
  if (counters) cuda::dropout<<<blocks_for(counters), kThreads, 0, stream>>>(x, y, drop, samples, rows, columns);
}

template <class T>
void Launch<T>::gated(bool is_silu, const T* gate, const T* up, T* y, int64_t count, cudaStream_t stream) {
  if (!count) return;
  constexpr int kVector = kWidth<T>;
  const auto kernel = are_aligned(gate, up, y)
                          ? (is_silu ? cuda::gated<T, true, kVector> : cuda::gated<T, false, kVector>)
                          : (is_silu ? cuda::gated<T, true, 1> : cuda::gated<T, false, 1>);
  kernel<<<blocks_for(count), kThreads, 0, stream>>>(gate, up, y, count);
}

template <class T>
void Launch<T>::gated_backward(bool is_silu, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count,
                               cudaStream_t stream) {
  if (!count) return;
  constexpr int kVector = kWidth<T>;
  const auto kernel = are_aligned(grad, gate, up, dgate, dup)
                          ? (is_silu ? cuda::gated_backward<T, true, kVector> : cuda::gated_backward<T, false, kVector>)
                          : (is_silu ? cuda::gated_backward<T, true, 1> : cuda::gated_backward<T, false, 1>);
  kernel<<<blocks_for(count), kThreads, 0, stream>>>(grad, gate, up, dgate, dup, count);
}

template <class T>
void Launch<T>::rotary(const T* x, const T* cos, const T* sin, T* y, const RotaryShape& shape, float direction,
                       cudaStream_t stream) {
  const int64_t half = shape.dim / 2, pairs = shape.batch * shape.seq * shape.heads * half;
  if (!pairs) return;
  constexpr int kVector = kWidth<T>;
  const auto divides = [](int64_t size) { return size % kVector == 0; };
  const bool by_vectors = are_aligned(x, cos, sin, y) && divides(half) && divides(shape.batch_stride) &&
                          divides(shape.head_stride) && divides(shape.seq_stride);
  const int64_t count = by_vectors ? pairs / kVector : pairs;
  const bool is_small = count < (int64_t{1} << 31);
  const auto kernel = by_vectors ? (is_small ? cuda::rotary<T, kVector, uint32_t> : cuda::rotary<T, kVector, int64_t>)
                                 : (is_small ? cuda::rotary<T, 1, uint32_t> : cuda::rotary<T, 1, int64_t>);
  kernel<<<blocks_for(count), kThreads, 0, stream>>>(x, cos, sin, y, shape, direction);
}

template <class T>
void Launch<T>::cross_entropy(const T* logits, const int64_t* targets, float* losses, float* log_sum_exp, int64_t rows,
                              int64_t vocab, int64_t row_stride, int64_t ignored, cudaStream_t stream) {
  if (rows)
    cuda::cross_entropy<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, targets, losses, log_sum_exp,
                                                                              vocab, row_stride, ignored);
}

template <class T>
void Launch<T>::cross_entropy_backward(const float* grad, const T* logits, const int64_t* targets,
                                       const float* log_sum_exp, T* dlogits, int64_t rows, int64_t vocab,
                                       int64_t row_stride, int64_t dlogits_row_stride, int64_t ignored,
                                       cudaStream_t stream) {
  if (rows)
    cuda::cross_entropy_backward<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        grad, logits, targets, log_sum_exp, dlogits, vocab, row_stride, dlogits_row_stride, ignored);
}

template struct Launch<float>;
template struct Launch<__nv_bfloat16>;

}  // namespace modular::cuda
