// Compiled once for each instruction set with MODULAR_LEVEL naming it. Nothing of the standard library or of libtorch
// is included: an inline function of theirs, compiled here, could be the copy that the linker keeps for the whole
// program, and would then run on processors that lack the instructions. For the same reason everything here is static.
#include "runtime/ops/cpu/philox.h"
#include "runtime/ops/cpu/vector_math.h"

namespace modular::cpu {
namespace {

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// sqrt(2 / pi) * (x + 0.044715 x^3), doubled: gelu_tanh(x) = x * sigmoid(gelu_inner(x)).
inline float gelu_inner(float x) { return x * (1.5957691216057308f + 0.071354816272604305f * x * x); }
inline float gelu_inner_slope(float x) { return 1.5957691216057308f + 0.21406444881781292f * x * x; }

template <class T>
void rms_norm(const T* x, const float* weight, bool rounds_first, T* y, float* inverse_rms, int64_t rows,
              int64_t hidden, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += hidden, y += hidden) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < hidden; ++i) sum += load(x + i) * load(x + i);
    const float inverse = 1.0f / __builtin_sqrtf(sum / static_cast<float>(hidden) + eps);
    inverse_rms[row] = inverse;
    if (rounds_first) {
#pragma omp simd
      for (int64_t i = 0; i < hidden; ++i) store(y + i, weight[i] * round_to(x, load(x + i) * inverse));
    } else {
#pragma omp simd
      for (int64_t i = 0; i < hidden; ++i) store(y + i, weight[i] * (load(x + i) * inverse));
    }
  }
}

template <class T>
void rms_norm_backward(const T* grad, const T* x, const float* weight, const float* inverse_rms, T* dx,
                       float* __restrict weight_gradient, int64_t rows, int64_t hidden) {
  for (int64_t row = 0; row < rows; ++row, grad += hidden, x += hidden, dx += hidden) {
    const float inverse = inverse_rms[row];
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < hidden; ++i) dot += load(grad + i) * weight[i] * load(x + i);
    const float along = dot * inverse * inverse * inverse / static_cast<float>(hidden);
#pragma omp simd
    for (int64_t i = 0; i < hidden; ++i) {
      const float g = load(grad + i), value = load(x + i);
      store(dx + i, g * weight[i] * inverse - value * along);
      weight_gradient[i] += g * value * inverse;
    }
  }
}

template <class T, Gate function>
void gated_loop(const T* gate, const T* up, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = load(gate + i);
    const float activated = g * sigmoid(function == Gate::silu ? g : gelu_inner(g));
    store(y + i, round_to(gate, activated) * load(up + i));
  }
}

template <class T, Gate function>
void gated_backward_loop(const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float upstream = load(grad + i), g = load(gate + i);
    const float s = sigmoid(function == Gate::silu ? g : gelu_inner(g));
    const float inner_slope = function == Gate::silu ? 1.0f : gelu_inner_slope(g);
    const float slope = s + g * s * (1.0f - s) * inner_slope;
    store(dup + i, upstream * (g * s));
    store(dgate + i, upstream * load(up + i) * slope);
  }
}

template <class T>
void gated(Gate function, const T* gate, const T* up, T* y, int64_t count) {
  if (function == Gate::silu) return gated_loop<T, Gate::silu>(gate, up, y, count);
  gated_loop<T, Gate::gelu_tanh>(gate, up, y, count);
}

template <class T>
void gated_backward(Gate function, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  if (function == Gate::silu) return gated_backward_loop<T, Gate::silu>(grad, gate, up, dgate, dup, count);
  gated_backward_loop<T, Gate::gelu_tanh>(grad, gate, up, dgate, dup, count);
}

template <class T>
void rotate(const T* x, const T* cos, const T* sin, T* y, int64_t half, float direction) {
  // Forward: y1 = x1 c1 - x2 s1, y2 = x2 c2 + x1 s2. Its transpose swaps the sines and their sign.
  const T* sin_first = direction > 0.0f ? sin : sin + half;
  const T* sin_second = direction > 0.0f ? sin + half : sin;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float first = load(x + i), second = load(x + half + i);
    store(y + i, first * load(cos + i) - direction * second * load(sin_first + i));
    store(y + half + i, second * load(cos + half + i) + direction * first * load(sin_second + i));
  }
}

// In float64: an error of the normalizer is an error of every probability of its row.
template <class T>
double log_sum_exp(const T* logits, int64_t count) {
  const float largest = maximum(logits, count);
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(exponential(load(logits + i) - largest));
  return static_cast<double>(largest) + __builtin_log(sum);
}

template <class T>
float below(const T* logit, double log_sum_exp) {
  return static_cast<float>(static_cast<double>(load(logit)) - log_sum_exp);
}

template <class T>
float negative_log_likelihood(const T* logits, int64_t target, double log_sum_exp) {
  return -below(logits + target, log_sum_exp);
}

template <class T>
void negative_log_likelihood_backward(const T* logits, T* y, int64_t count, int64_t target, double log_sum_exp,
                                      float scale) {
  const float of_target = exponential(below(logits + target, log_sum_exp));  // y may be the logits
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y + i, exponential(below(logits + i, log_sum_exp)) * scale);
  store(y + target, (of_target - 1.0f) * scale);
}

template <class T>
void decay(const double* sums, T* to, int64_t length) {
  for (int64_t i = 0; i < length; ++i, to += length) {
    const double own = sums[i];
#pragma omp simd
    for (int64_t j = 0; j <= i; ++j) store(to + j, exponential(static_cast<float>(own - sums[j])));
    for (int64_t j = i + 1; j < length; ++j) store(to + j, 0.0f);
  }
}

template <class T>
void decay_backward(const T* grad, const T* decay, double* gradient, int64_t length) {
  for (int64_t j = 0; j < length; ++j) gradient[j] = 0.0;
  for (int64_t i = 0; i < length; ++i, grad += length, decay += length) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < i; ++j) {
      const double part = static_cast<double>(load(grad + j)) * static_cast<double>(load(decay + j));
      gradient[j] -= part;
      sum += part;
    }
    gradient[i] += sum;
  }
}

template <class T>
void dropout(const Drop& drop, const T* x, T* y, int64_t first_row, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns)
    for_each_word(drop, static_cast<uint32_t>(first_row + row), drop.first_column, drop.first_column + columns,
                  [&](int64_t column, const uint32_t* words, int64_t count) {
                    const T* from = x + (column - drop.first_column);
                    T* to = y + (column - drop.first_column);
#pragma omp simd
                    for (int64_t i = 0; i < count; ++i)
                      store(to + i, words[i] >= drop.threshold ? load(from + i) * drop.scale : 0.0f);
                  });
}

template <class T>
constexpr Kernels<T> table = {
    .rms_norm = rms_norm<T>,
    .rms_norm_backward = rms_norm_backward<T>,
    .gated = gated<T>,
    .gated_backward = gated_backward<T>,
    .rotate = rotate<T>,
    .log_sum_exp = log_sum_exp<T>,
    .negative_log_likelihood = negative_log_likelihood<T>,
    .negative_log_likelihood_backward = negative_log_likelihood_backward<T>,
    .decay = decay<T>,
    .decay_backward = decay_backward<T>,
    .dropout = dropout<T>,
};

}  // namespace

extern const Kernels<float> MODULAR_NAME(float_kernels, MODULAR_LEVEL);
extern const Kernels<Bf16> MODULAR_NAME(bf16_kernels, MODULAR_LEVEL);
const Kernels<float> MODULAR_NAME(float_kernels, MODULAR_LEVEL) = table<float>;
const Kernels<Bf16> MODULAR_NAME(bf16_kernels, MODULAR_LEVEL) = table<Bf16>;

}  // namespace modular::cpu
