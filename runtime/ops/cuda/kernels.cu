#include <cassert>

#include "runtime/ops/cuda/kernels.h"

namespace modular::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float load(const float* p) { return *p; }
__device__ inline float load(const __nv_bfloat16* p) { return __bfloat162float(*p); }
__device__ inline void store(float* p, float value) { *p = value; }
__device__ inline void store(__nv_bfloat16* p, float value) { *p = __float2bfloat16(value); }
__device__ inline float round_to(const float*, float value) { return value; }
__device__ inline float round_to(const __nv_bfloat16*, float value) {
  return __bfloat162float(__float2bfloat16(value));
}

struct Sum {
  static constexpr float start = 0.0f;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  static constexpr float start = -INFINITY;
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The reduction of every thread's `value` over the block, known to all of its threads.
template <class Operation>
__device__ float reduce_block(float value) {
  __shared__ float of_warp[32];
  const Operation operation;
  for (int offset = 16; offset > 0; offset /= 2) value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();  // the values of a reduction before this one have been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : Operation::start;
  for (int offset = 16; offset > 0; offset /= 2) value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
// gelu_tanh(x) = x * sigmoid(gelu_inner(x)).
__device__ inline float gelu_inner(float x) { return x * (1.5957691216057308f + 0.071354816272604305f * x * x); }
__device__ inline float gelu_inner_slope(float x) { return 1.5957691216057308f + 0.21406444881781292f * x * x; }

// One block a row.
template <class T>
__global__ void rms_norm(const T* x, const float* weight, bool rounds_first, T* y, float* inverse_rms, int64_t hidden,
                         float eps) {
  const int64_t row = blockIdx.x;
  x += row * hidden, y += row * hidden;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) sum += load(x + i) * load(x + i);
  const float inverse = rsqrtf(reduce_block<Sum>(sum) / static_cast<float>(hidden) + eps);
  if (threadIdx.x == 0) inverse_rms[row] = inverse;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float normalized = load(x + i) * inverse;
    store(y + i, weight[i] * (rounds_first ? round_to(x, normalized) : normalized));
  }
}

template <class T>
__global__ void rms_norm_backward(const T* grad, const T* x, const float* weight, const float* inverse_rms, T* dx,
                                  int64_t hidden) {
  const int64_t row = blockIdx.x;
  grad += row * hidden, x += row * hidden, dx += row * hidden;
  float dot = 0.0f;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) dot += load(grad + i) * weight[i] * load(x + i);
  const float inverse = inverse_rms[row];
  const float along = reduce_block<Sum>(dot) * inverse * inverse * inverse / static_cast<float>(hidden);
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x)
    store(dx + i, load(grad + i) * weight[i] * inverse - load(x + i) * along);
}

// A thread sums one column over the rows of one piece: neighbours read neighbouring elements.
template <class T>
__global__ void rms_norm_weight_backward(const T* grad, const T* x, const float* inverse_rms, float* partial,
                                         int64_t rows, int64_t hidden) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= hidden) return;
  float sum = 0.0f;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y)
    sum += load(grad + row * hidden + column) * load(x + row * hidden + column) * inverse_rms[row];
  partial[blockIdx.y * hidden + column] = sum;
}

// Counters of Philox that a row of columns from `first` on needs: sixteen for each 64 columns.
__host__ __device__ inline int64_t counters_of(int64_t first, int64_t columns) {
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

// A thread draws the four words of one counter: those of four columns, 16 apart.
template <class T>
__global__ void dropout(const T* x, T* y, Drop drop, int64_t samples, int64_t rows, int64_t columns) {
  const int64_t of_row = counters_of(drop.first_column, columns), first = 16 * (drop.first_column / 64);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < samples * rows * of_row;
       i += step) {
    const int64_t row = i / of_row, block = first + i % of_row;
    uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(row % rows),
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

template <class T, bool is_silu>
__global__ void gated(const T* gate, const T* up, T* y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float g = load(gate + i);
    store(y + i, round_to(gate, g * sigmoid(is_silu ? g : gelu_inner(g))) * load(up + i));
  }
}

template <class T, bool is_silu>
__global__ void gated_backward(const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float upstream = load(grad + i), g = load(gate + i);
    const float s = sigmoid(is_silu ? g : gelu_inner(g));
    const float slope = s + g * s * (1.0f - s) * (is_silu ? 1.0f : gelu_inner_slope(g));
    store(dup + i, upstream * (g * s));
    store(dgate + i, upstream * load(up + i) * slope);
  }
}

template <class T>
__global__ void rotary(const T* x, const T* cos, const T* sin, T* y, RotaryShape shape, float direction) {
  const int64_t half = shape.dim / 2, count = shape.batch * shape.seq * shape.heads * half;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < count; index += step) {
    const int64_t i = index % half, vector = index / half;
    const int64_t head = vector % shape.heads, position = vector / shape.heads % shape.seq;
    const int64_t sequence = vector / shape.heads / shape.seq;
    const T* from = x + sequence * shape.batch_stride + head * shape.head_stride + position * shape.seq_stride;
    const int64_t entry = sequence * shape.table_batch_stride + position * shape.dim;
    T* to = y + vector * shape.dim;
    // Forward: y1 = x1 c1 - x2 s1, y2 = x2 c2 + x1 s2. Its transpose swaps the sines and their sign.
    const float sin_first = load(sin + entry + (direction > 0.0f ? i : half + i));
    const float sin_second = load(sin + entry + (direction > 0.0f ? half + i : i));
    const float first = load(from + i), second = load(from + half + i);
    store(to + i, first * load(cos + entry + i) - direction * second * sin_first);
    store(to + half + i, second * load(cos + entry + half + i) + direction * first * sin_second);
  }
}

// One block a row.
template <class T>
__global__ void cross_entropy(const T* logits, const int64_t* targets, float* losses, float* log_sum_exp, int64_t vocab,
                              int64_t ignored) {
  const int64_t row = blockIdx.x, target = targets[row];
  if (target == ignored) {
    if (threadIdx.x == 0) losses[row] = log_sum_exp[row] = 0.0f;
    return;
  }
  assert(target >= 0 && target < vocab);
  logits += row * vocab;
  float largest = -INFINITY, sum = 0.0f;
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) largest = fmaxf(largest, load(logits + i));
  largest = reduce_block<Largest>(largest);
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) sum += expf(load(logits + i) - largest);
  const float normalizer = largest + logf(reduce_block<Sum>(sum));
  if (threadIdx.x == 0) log_sum_exp[row] = normalizer, losses[row] = normalizer - load(logits + target);
}

template <class T>
__global__ void cross_entropy_backward(const float* grad, const T* logits, const int64_t* targets,
                                       const float* log_sum_exp, T* dlogits, int64_t vocab, int64_t ignored) {
  const int64_t row = blockIdx.x, target = targets[row];
  logits += row * vocab, dlogits += row * vocab;
  const float scale = target == ignored ? 0.0f : *grad, normalizer = log_sum_exp[row];
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x)
    store(dlogits + i,
          scale == 0.0f ? 0.0f : (expf(load(logits + i) - normalizer) - (i == target ? 1.0f : 0.0f)) * scale);
}

// Enough blocks for any GPU; the loops take the rest.
unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 8192 ? blocks : 8192);
}

}  // namespace

template <class T>
void Launch<T>::rms_norm(const T* x, const float* weight, bool rounds_first, T* y, float* inverse_rms, int64_t rows,
                         int64_t hidden, float eps, cudaStream_t stream) {
  if (rows)
    cuda::rms_norm<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, weight, rounds_first, y, inverse_rms,
                                                                         hidden, eps);
}

template <class T>
void Launch<T>::rms_norm_backward(const T* grad, const T* x, const float* weight, const float* inverse_rms, T* dx,
                                  int64_t rows, int64_t hidden, cudaStream_t stream) {
  if (rows)
    cuda::rms_norm_backward<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(grad, x, weight, inverse_rms, dx,
                                                                                  hidden);
}

template <class T>
void Launch<T>::rms_norm_weight_backward(const T* grad, const T* x, const float* inverse_rms, float* partial,
                                         int64_t pieces, int64_t rows, int64_t hidden, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((hidden + kThreads - 1) / kThreads), static_cast<unsigned>(pieces));
  if (hidden)
    cuda::rms_norm_weight_backward<<<blocks, kThreads, 0, stream>>>(grad, x, inverse_rms, partial, rows, hidden);
}

template <class T>
void Launch<T>::dropout(const T* x, T* y, const Drop& drop, int64_t samples, int64_t rows, int64_t columns,
                        cudaStream_t stream) {
  const int64_t counters = samples * rows * counters_of(drop.first_column, columns);
  if (counters) cuda::dropout<<<blocks_for(counters), kThreads, 0, stream>>>(x, y, drop, samples, rows, columns);
}

template <class T>
void Launch<T>::gated(bool is_silu, const T* gate, const T* up, T* y, int64_t count, cudaStream_t stream) {
  if (!count) return;
  const auto kernel = is_silu ? cuda::gated<T, true> : cuda::gated<T, false>;
  kernel<<<blocks_for(count), kThreads, 0, stream>>>(gate, up, y, count);
}

template <class T>
void Launch<T>::gated_backward(bool is_silu, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count,
                               cudaStream_t stream) {
  if (!count) return;
  const auto kernel = is_silu ? cuda::gated_backward<T, true> : cuda::gated_backward<T, false>;
  kernel<<<blocks_for(count), kThreads, 0, stream>>>(grad, gate, up, dgate, dup, count);
}

template <class T>
void Launch<T>::rotary(const T* x, const T* cos, const T* sin, T* y, const RotaryShape& shape, float direction,
                       cudaStream_t stream) {
  const int64_t count = shape.batch * shape.seq * shape.heads * (shape.dim / 2);
  if (count) cuda::rotary<<<blocks_for(count), kThreads, 0, stream>>>(x, cos, sin, y, shape, direction);
}

template <class T>
void Launch<T>::cross_entropy(const T* logits, const int64_t* targets, float* losses, float* log_sum_exp, int64_t rows,
                              int64_t vocab, int64_t ignored, cudaStream_t stream) {
  if (rows)
    cuda::cross_entropy<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, targets, losses, log_sum_exp,
                                                                              vocab, ignored);
}

template <class T>
void Launch<T>::cross_entropy_backward(const float* grad, const T* logits, const int64_t* targets,
                                       const float* log_sum_exp, T* dlogits, int64_t rows, int64_t vocab,
                                       int64_t ignored, cudaStream_t stream) {
  if (rows)
    cuda::cross_entropy_backward<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        grad, logits, targets, log_sum_exp, dlogits, vocab, ignored);
}

template struct Launch<float>;
template struct Launch<__nv_bfloat16>;

}  // namespace modular::cuda
