// Compiled once per instruction set, which MODULAR_LEVEL names. No header of the standard library or of libtorch is
// included: the linker could keep the copy of an inline function that is compiled here for the entire program, which
// would then run on CPUs that lack the instructions. For the same reason everything here has internal linkage.
#include "runtime/ops/cpu/vector_math.h"

namespace modular::cpu {
namespace {

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
#pragma omp simd simdlen(kVector)
      for (int64_t i = 0; i < hidden; ++i) store(y + i, weight[i] * round_to(x, load(x + i) * inverse));
    } else {
#pragma omp simd simdlen(kVector)
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

template <class T>
void layer_norm(const T* x, const float* weight, const float* bias, T* y, float* mean, float* inverse_deviation,
                int64_t rows, int64_t hidden, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += hidden, y += hidden) {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < hidden; ++i) sum += load(x + i);
    const float middle = sum / static_cast<float>(hidden);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < hidden; ++i) squares += (load(x + i) - middle) * (load(x + i) - middle);
    const float inverse = 1.0f / __builtin_sqrtf(squares / static_cast<float>(hidden) + eps);
    mean[row] = middle, inverse_deviation[row] = inverse;
#pragma omp simd simdlen(kVector)
    for (int64_t i = 0; i < hidden; ++i) store(y + i, (load(x + i) - middle) * inverse * weight[i] + bias[i]);
  }
}

template <class T>
void layer_norm_backward(const T* grad, const T* x, const float* weight, const float* mean,
                         const float* inverse_deviation, T* dx, float* __restrict weight_gradient,
                         float* __restrict bias_gradient, int64_t rows, int64_t hidden) {
  for (int64_t row = 0; row < rows; ++row, grad += hidden, x += hidden, dx += hidden) {
    const float middle = mean[row], inverse = inverse_deviation[row];
    float sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t i = 0; i < hidden; ++i) {
      const float g = load(grad + i) * weight[i];
      sum += g;
      dot += g * (load(x + i) - middle);
    }
    const float constant = sum / static_cast<float>(hidden);
    const float along = dot * inverse * inverse / static_cast<float>(hidden);
#pragma omp simd
    for (int64_t i = 0; i < hidden; ++i) {
      const float g = load(grad + i), distance = load(x + i) - middle;
      store(dx + i, (g * weight[i] - constant - distance * along) * inverse);
      weight_gradient[i] += g * distance * inverse;
      bias_gradient[i] += g;
    }
  }
}

// The normal density without its constant factor, and the normal distribution function at x: the density times a
// polynomial of k = 1 / (1 + 0.4 |x| / sqrt(2)), as in Abramowitz & Stegun 7.1.26, fitted to a relative error of 1e-6
// down to -8 and an absolute error of two roundings.
inline float bell(float x) { return exponential_of_negative(-0.5f * x * x); }

inline float normal_distribution(float x, float bell) {
  const float k = 1.0f / (1.0f + 0.28284271f * __builtin_fabsf(x));
  float p = 3.678107634e-2f;
  p = p * k - 1.9514885545e-1f;
  p = p * k + 3.3719557525e-1f;
  p = p * k - 1.807844639e-1f;
  p = p * k + 1.999962032e-1f;
  p = p * k + 7.16199205e-2f;
  p = p * k + 1.178301871e-1f;
  p = p * k + 1.125103459e-1f;
  const float tail = p * k * bell;
  return x > 0.0f ? 1.0f - tail : tail;
}

// All activations but GELU are x * sigmoid(inner(x)).
template <Activation function>
inline float inner(float x) {
  return function == Activation::silu ? x : (function == Activation::quick_gelu ? 1.702f * x : gelu_inner(x));
}

template <Activation function>
inline float inner_slope(float x) {
  return function == Activation::silu ? 1.0f : (function == Activation::quick_gelu ? 1.702f : gelu_inner_slope(x));
}

// Value and slope of an activation at a point.
struct Point {
  float value, slope;
};

template <Activation function>
inline Point point_at(float x) {
  if (function == Activation::gelu) {
    const float density = bell(x), below = normal_distribution(x, density);
    return {x * below, below + x * (0.3989422804f * density)};
  }
  const float s = sigmoid(inner<function>(x));
  return {x * s, s + x * s * (1.0f - s) * inner_slope<function>(x)};
}

template <class T, Activation function>
void gated_loop(const T* gate, const T* up, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    store(y + i, round_to(gate, point_at<function>(load(gate + i)).value) * load(up + i));
}

template <class T, Activation function>
void gated_backward_loop(const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float upstream = load(grad + i);
    const Point point = point_at<function>(load(gate + i));
    store(dup + i, upstream * point.value);
    store(dgate + i, upstream * load(up + i) * point.slope);
  }
}

template <class T>
void gated(Gate function, const T* gate, const T* up, T* y, int64_t count) {
  if (function == Gate::silu) return gated_loop<T, Activation::silu>(gate, up, y, count);
  gated_loop<T, Activation::gelu_tanh>(gate, up, y, count);
}

template <class T>
void gated_backward(Gate function, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  if (function == Gate::silu) return gated_backward_loop<T, Activation::silu>(grad, gate, up, dgate, dup, count);
  gated_backward_loop<T, Activation::gelu_tanh>(grad, gate, up, dgate, dup, count);
}

template <class T, Activation function>
void activate_loop(const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y + i, point_at<function>(load(x + i)).value);
}

template <class T, Activation function>
void activate_backward_loop(const T* grad, const T* x, T* dx, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(dx + i, load(grad + i) * point_at<function>(load(x + i)).slope);
}

template <class T>
void activate(Activation function, const T* x, T* y, int64_t count) {
  switch (function) {
    case Activation::silu:
      return activate_loop<T, Activation::silu>(x, y, count);
    case Activation::gelu:
      return activate_loop<T, Activation::gelu>(x, y, count);
    case Activation::gelu_tanh:
      return activate_loop<T, Activation::gelu_tanh>(x, y, count);
    case Activation::quick_gelu:
      return activate_loop<T, Activation::quick_gelu>(x, y, count);
  }
}

template <class T>
void activate_backward(Activation function, const T* grad, const T* x, T* dx, int64_t count) {
  switch (function) {
    case Activation::silu:
      return activate_backward_loop<T, Activation::silu>(grad, x, dx, count);
    case Activation::gelu:
      return activate_backward_loop<T, Activation::gelu>(grad, x, dx, count);
    case Activation::gelu_tanh:
      return activate_backward_loop<T, Activation::gelu_tanh>(grad, x, dx, count);
    case Activation::quick_gelu:
      return activate_backward_loop<T, Activation::quick_gelu>(grad, x, dx, count);
  }
}

// Elements of half a vector whose table entries are read once for all heads.
constexpr int64_t kRotationBlock = 128;

// Cosines and sines for a block of both halves of a vector.
struct Rotation {
  float cos1[kRotationBlock], cos2[kRotationBlock], sin1[kRotationBlock], sin2[kRotationBlock];
};

// A function of its own: compilers do not vectorize it inside a loop over heads.
template <class T>
[[gnu::noinline]] void rotate_head(const T* x, const Rotation& by, T* y, int64_t half, int64_t count) {
#pragma omp simd simdlen(kVector)
  for (int64_t i = 0; i < count; ++i) {
    const float first = load(x + i), second = load(x + half + i);
    store(y + i, first * by.cos1[i] - second * by.sin1[i]);
    store(y + half + i, second * by.cos2[i] + first * by.sin2[i]);
  }
}

template <class T>
void rotate(const T* x, int64_t heads, int64_t head_stride, const T* cos, const T* sin, T* y, int64_t half,
            float direction) {
  // Forward: y1 = x1 c1 - x2 s1, y2 = x2 c2 + x1 s2. Its transpose swaps the sines and their sign.
  const T* sin_first = direction > 0.0f ? sin : sin + half;
  const T* sin_second = direction > 0.0f ? sin + half : sin;
  for (int64_t begin = 0; begin < half; begin += kRotationBlock) {
    const int64_t count = half - begin < kRotationBlock ? half - begin : kRotationBlock;
    Rotation by;
#pragma omp simd simdlen(kVector)
    for (int64_t i = 0; i < count; ++i) {
      by.cos1[i] = load(cos + begin + i), by.cos2[i] = load(cos + half + begin + i);
      by.sin1[i] = direction * load(sin_first + begin + i), by.sin2[i] = direction * load(sin_second + begin + i);
    }
    for (int64_t head = 0; head < heads; ++head)
      rotate_head(x + head * head_stride + begin, by, y + head * 2 * half + begin, half, count);
  }
}

// A row of logits is summed in pieces of this size in float32, for vectorization; the pieces' sums are added in
// float64.
constexpr int64_t kPiece = 1024;

// In float64: an error of the normalizer affects every probability of its row.
template <class T>
double log_sum_exp(const T* logits, int64_t count) {
  const float largest = maximum(logits, count);
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t last = first + kPiece < count ? first + kPiece : count;
    float piece = 0.0f;
#pragma omp simd reduction(+ : piece)
    for (int64_t i = first; i < last; ++i) piece += exponential_of_negative(load(logits + i) - largest);
    sum += static_cast<double>(piece);
  }
  return static_cast<double>(largest) + __builtin_log(sum);
}

template <class T>
float negative_log_likelihood(const T* logits, int64_t target, double log_sum_exp) {
  return static_cast<float>(log_sum_exp - static_cast<double>(load(logits + target)));
}

template <class T>
void negative_log_likelihood_backward(const T* logits, T* y, int64_t count, int64_t target, double log_sum_exp,
                                      float scale) {
  // The normalizer is split into two floats to keep its digits.
  const float high = static_cast<float>(log_sum_exp);
  const float low = static_cast<float>(log_sum_exp - static_cast<double>(high));
  const float target_probability = exponential(load(logits + target) - high - low);
  // y may alias the logits. Compilers only vectorize a loop whose input and output may alias if it goes through a
  // buffer.
  float piece[kPiece];
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t length = first + kPiece < count ? kPiece : count - first;
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) piece[i] = exponential(load(logits + first + i) - high - low) * scale;
#pragma omp simd simdlen(kVector)
    for (int64_t i = 0; i < length; ++i) store(y + first + i, piece[i]);
  }
  store(y + target, (target_probability - 1.0f) * scale);
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
void dropout(const Drop& drop, const T* x, T* y, int64_t first, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns)
    for_each_word(drop, static_cast<uint32_t>(drop.first_row + first + row), drop.first_column,
                  drop.first_column + columns, [&](int64_t column, const uint32_t* words, int64_t count) {
                    const T* from = x + (column - drop.first_column);
                    T* to = y + (column - drop.first_column);
#pragma omp simd simdlen(kVector)
                    for (int64_t i = 0; i < count; ++i)
                      store(to + i, words[i] >= drop.threshold ? load(from + i) * drop.scale : 0.0f);
                  });
}

template <class T>
void adamw(const T* gradient, float* value, float* exp_avg, float* exp_avg_sq, T* compute_copy, int64_t count,
           float divisor, const AdamWFactors& by) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = load(gradient + i) / divisor;
    const float mean = exp_avg[i] + by.gradient_weight * (g - exp_avg[i]);
    const float square = by.beta2 * exp_avg_sq[i] + by.square_weight * g * g;
    const float denominator = __builtin_sqrtf(square) / by.sqrt_bias_correction2 + by.eps;
    const float updated = value[i] * by.decay - by.step_size * mean / denominator;
    exp_avg[i] = mean, exp_avg_sq[i] = square, value[i] = updated;
    store(compute_copy + i, updated);
  }
}

// Accumulates in float32 over pieces that are short enough for nearly exact sums.
template <class T>
double sum_of_squares(const T* x, int64_t count) {
  constexpr int64_t kPiece = 512;
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t last = first + kPiece < count ? first + kPiece : count;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = first; i < last; ++i) squares += load(x + i) * load(x + i);
    sum += static_cast<double>(squares);
  }
  return sum;
}

template <class T>
void add(const T* left, const T* right, T* y, int64_t count) {
#pragma omp simd simdlen(kVector)
  for (int64_t i = 0; i < count; ++i) store(y + i, load(left + i) + load(right + i));
}

// A function of its own: compilers do not vectorize a loop whose output may alias another input.
template <class T>
void add_to(T* y, const T* x, int64_t count) {
#pragma omp simd simdlen(kVector)
  for (int64_t i = 0; i < count; ++i) store(y + i, load(y + i) + load(x + i));
}

template <class T>
constexpr Kernels<T> table = {
    .rms_norm = rms_norm<T>,
    .rms_norm_backward = rms_norm_backward<T>,
    .layer_norm = layer_norm<T>,
    .layer_norm_backward = layer_norm_backward<T>,
    .activate = activate<T>,
    .activate_backward = activate_backward<T>,
    .gated = gated<T>,
    .gated_backward = gated_backward<T>,
    .rotate = rotate<T>,
    .log_sum_exp = log_sum_exp<T>,
    .negative_log_likelihood = negative_log_likelihood<T>,
    .negative_log_likelihood_backward = negative_log_likelihood_backward<T>,
    .decay = decay<T>,
    .decay_backward = decay_backward<T>,
    .dropout = dropout<T>,
    .adamw = adamw<T>,
    .sum_of_squares = sum_of_squares<T>,
    .add = add<T>,
    .add_to = add_to<T>,
};

}  // namespace

#ifndef MODULAR_BF16_ALONE  // a level without float32 kernels
extern const Kernels<float> MODULAR_NAME(float_kernels, MODULAR_LEVEL);
const Kernels<float> MODULAR_NAME(float_kernels, MODULAR_LEVEL) = table<float>;
#endif
extern const Kernels<Bf16> MODULAR_NAME(bf16_kernels, MODULAR_LEVEL);
const Kernels<Bf16> MODULAR_NAME(bf16_kernels, MODULAR_LEVEL) = table<Bf16>;

}  // namespace modular::cpu
