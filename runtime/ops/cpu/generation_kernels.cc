#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/vector_math.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace modular::cpu {

// Compiled once per instruction set; see kernels.cc for the restrictions this implies.

namespace {

constexpr int64_t kKeyBlock = 64;      // keys that all query heads process before the next block is read
constexpr int64_t kFeatureBlock = 64;  // value features that are accumulated in registers

// scores[j] = query · key_j for the keys of a block.
template <class T>
inline void score_block(const float* query, const T* key, int64_t key_row, int64_t count, int64_t dim, float* scores) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const T *key0 = key + j * key_row, *key1 = key0 + key_row, *key2 = key1 + key_row, *key3 = key2 + key_row;
    float first = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;
#pragma omp simd reduction(+ : first, second, third, fourth)
    for (int64_t d = 0; d < dim; ++d) {
      first += query[d] * load(key0 + d);
      second += query[d] * load(key1 + d);
      third += query[d] * load(key2 + d);
      fourth += query[d] * load(key3 + d);
    }
    scores[j] = first, scores[j + 1] = second, scores[j + 2] = third, scores[j + 3] = fourth;
  }
  for (; j < count; ++j) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < dim; ++d) sum += query[d] * load(key + j * key_row + d);
    scores[j] = sum;
  }
}

// Replaces the scores of query `i` with its attention weights; 0 for keys that it does not see.
void soften(const CachedAttentionShape& shape, int64_t i, float* scores) {
  const int64_t at = shape.keys - shape.seq + i;  // the query's own position among the keys
  const int64_t first = at > shape.reach ? at - shape.reach : 0;
  const int64_t behind = shape.causal ? at + 1 : at + shape.reach + 1;
  const int64_t last = behind < shape.keys ? behind : shape.keys;
  if (shape.softcap > 0.0f)
    for (int64_t j = first; j < last; ++j) scores[j] = __builtin_tanhf(scores[j] / shape.softcap) * shape.softcap;
  if (shape.present)
    for (int64_t j = first; j < last; ++j) scores[j] = shape.present[j] ? scores[j] : -__builtin_inff();
  const float largest = maximum(scores + first, last - first);
  float sum = 0.0f;
  const float base = largest == -__builtin_inff() ? 0.0f : largest;  // if no key is visible, all weights are 0
#pragma omp simd reduction(+ : sum)
  for (int64_t j = first; j < last; ++j) {
    scores[j] = exponential(scores[j] - base);
    sum += scores[j];
  }
  const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
  for (int64_t j = 0; j < first; ++j) scores[j] = 0.0f;
#pragma omp simd
  for (int64_t j = first; j < last; ++j) scores[j] *= factor;
  for (int64_t j = last; j < shape.keys; ++j) scores[j] = 0.0f;
}

// mixed[0 … width) = the weighted sum of the value features at `value`.
template <class T>
inline void mix(const float* weights, const T* value, int64_t value_row, int64_t keys, int64_t width, T* mixed) {
  float sums[kFeatureBlock] = {};
  if (width == kFeatureBlock) {
    for (int64_t j = 0; j < keys; ++j) {
#pragma omp simd
      for (int64_t d = 0; d < kFeatureBlock; ++d) sums[d] += weights[j] * load(value + j * value_row + d);
    }
  } else {
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < width; ++d) sums[d] += weights[j] * load(value + j * value_row + d);
  }
  for (int64_t d = 0; d < width; ++d) store(mixed + d, sums[d]);
}

template <class T>
void attend(const CachedAttentionShape& shape, const T* query, const T* key, const T* value, T* output,
            float* scratch) {
  const int64_t rows = shape.group * shape.seq, dim = shape.dim;
  float *queries = scratch, *scores = scratch + rows * dim;
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = query + row / shape.seq * shape.query.head + row % shape.seq * shape.query.row;
    for (int64_t d = 0; d < dim; ++d) queries[row * dim + d] = load(from + d) * shape.scale;
  }
  for (int64_t block = 0; block < shape.keys; block += kKeyBlock) {
    const int64_t count = shape.keys - block < kKeyBlock ? shape.keys - block : kKeyBlock;
    for (int64_t row = 0; row < rows; ++row)
      score_block(queries + row * dim, key + block * shape.key_row, shape.key_row, count, dim,
                  scores + row * shape.keys + block);
  }
  for (int64_t row = 0; row < rows; ++row) soften(shape, row % shape.seq, scores + row * shape.keys);
  // A block of features of all values stays in the core's cache for the following rows.
  for (int64_t first = 0; first < shape.value_dim; first += kFeatureBlock) {
    const int64_t width = shape.value_dim - first < kFeatureBlock ? shape.value_dim - first : kFeatureBlock;
    for (int64_t row = 0; row < rows; ++row)
      mix(scores + row * shape.keys, value + first, shape.value_row, shape.keys, width,
          output + row / shape.seq * shape.output.head + row % shape.seq * shape.output.row + first);
  }
}

}  // namespace

extern const CachedAttention<float> MODULAR_NAME(float_cached, MODULAR_LEVEL);
extern const CachedAttention<Bf16> MODULAR_NAME(bf16_cached, MODULAR_LEVEL);
const CachedAttention<float> MODULAR_NAME(float_cached, MODULAR_LEVEL) = attend<float>;
const CachedAttention<Bf16> MODULAR_NAME(bf16_cached, MODULAR_LEVEL) = attend<Bf16>;

// Compiled once per instruction set; see kernels.cc for the restrictions this implies.

namespace {

// A tile of sums takes most of the registers: kTileRows rows of x by kTileOutputs rows of the weight.
constexpr int64_t kTileRows = 4, kTileOutputs = kVector == 16 ? 6 : 2;
static_assert(kSkinnyStep % (2 * kVector) == 0);

using Vector = float __attribute__((vector_size(kVector * sizeof(float)), aligned(sizeof(float)), may_alias));
using Bits = uint32_t __attribute__((vector_size(kVector * sizeof(float)), aligned(2), may_alias));

inline Vector vector_at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

// The first or second of two vectors from a row of the weight. For bfloat16 they hold the elements at even and at odd
// indices, each of which is half of a 32-bit word.
template <bool second>
inline Vector half_at(const float* p) {
  return vector_at(p + (second ? kVector : 0));
}
template <bool second>
inline Vector half_at(const Bf16* p) {
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  return reinterpret_cast<Vector>(second ? bits & 0xffff0000u : bits << 16);
}

// Packs rows of x in the element order of half_at().
template <class T>
void pack(const T* x, int64_t x_row, float* packed, int64_t rows, int64_t features) {
  for (int64_t row = 0; row < rows; ++row, x += x_row, packed += features)
    for (int64_t first = 0; first < features; first += 2 * kVector)
      for (int64_t i = 0; i < kVector; ++i) {
        const bool is_half = sizeof(T) == 2;
        packed[first + i] = load(x + first + (is_half ? 2 * i : i));
        packed[first + kVector + i] = load(x + first + (is_half ? 2 * i + 1 : kVector + i));
      }
}

inline float reduce_sum(const Vector& value) {
  float lanes[kVector];
  *reinterpret_cast<Vector*>(lanes) = value;
  return reduce_sum(lanes);
}

#if defined(__AVX512F__)
// Reduces eight vectors at once, each in the order of reduce_sum(), with a quarter of the shuffles.
inline void reduce_sums(const Vector (&values)[8], float (&sums)[8]) {
  const auto at = [&](int64_t i) { return _mm512_loadu_ps(reinterpret_cast<const float*>(&values[i])); };
  __m512 pairs[4], fours[2];
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i)
    pairs[i] = _mm512_add_ps(_mm512_shuffle_f32x4(at(2 * i), at(2 * i + 1), 0x44),
                             _mm512_shuffle_f32x4(at(2 * i), at(2 * i + 1), 0xee));
#pragma GCC unroll 2
  for (int64_t i = 0; i < 2; ++i)
    fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(pairs[2 * i], pairs[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(pairs[2 * i], pairs[2 * i + 1], 0xdd));
  const __m512 eights =
      _mm512_add_ps(_mm512_shuffle_ps(fours[0], fours[1], 0x44), _mm512_shuffle_ps(fours[0], fours[1], 0xee));
  alignas(64) float doubled[16];  // each sum twice: 0 0 4 4 1 1 5 5 …
  _mm512_store_ps(doubled, _mm512_add_ps(eights, _mm512_permute_ps(eights, 0xb1)));
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) sums[i] = doubled[i % 4 * 4 + i / 4 * 2];
}
#endif

template <bool second, int64_t rows, int64_t outputs, class T>
inline void add_half(const float* packed, const T* weight, int64_t features, Vector (&sums)[rows][outputs]) {
  Vector x[rows];
#pragma GCC unroll 8
  for (int64_t m = 0; m < rows; ++m) x[m] = vector_at(packed + m * features + (second ? kVector : 0));
#pragma GCC unroll 8
  for (int64_t n = 0; n < outputs; ++n) {
    const Vector factor = half_at<second>(weight + n * features);
#pragma GCC unroll 8
    for (int64_t m = 0; m < rows; ++m) sums[m][n] += x[m] * factor;
  }
}

// Prefetches the weight rows of the next tile, which are beyond the reach of hardware prefetchers.
template <int64_t outputs, class T>
inline void prefetch_next(const T* weight, int64_t features) {
  constexpr int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 8
  for (int64_t n = outputs; n < 2 * outputs; ++n)
#pragma GCC unroll 2
    for (int64_t i = 0; i < 2 * kVector; i += kLine) __builtin_prefetch(weight + n * features + i, 0, 2);
}

template <int64_t rows, int64_t outputs, class T>
inline void tile(const float* packed, const T* weight, T* y, int64_t y_row, int64_t features, bool prefetches = false) {
  Vector sums[rows][outputs] = {};
  for (int64_t k = 0; k < features; k += 2 * kVector) {
    if (prefetches) prefetch_next<outputs>(weight + k, features);
    add_half<false>(packed + k, weight + k, features, sums);
    add_half<true>(packed + k, weight + k, features, sums);
  }
#if defined(__AVX512F__)
  if constexpr (rows == 4 && outputs % 2 == 0) {
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; n += 2) {
      const Vector both[8] = {sums[0][n],     sums[1][n],     sums[2][n],     sums[3][n],
                              sums[0][n + 1], sums[1][n + 1], sums[2][n + 1], sums[3][n + 1]};
      float reduced[8];
      reduce_sums(both, reduced);
#pragma GCC unroll 8
      for (int64_t i = 0; i < 8; ++i) store(y + i % 4 * y_row + n + i / 4, reduced[i]);
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int64_t m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; ++n) store(y + m * y_row + n, reduce_sum(sums[m][n]));
}

// Processes all rows for some outputs before reading the weight rows of the next outputs.
template <int64_t outputs, class T>
inline void multiply_outputs(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows,
                             int64_t features) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tile<kTileRows, outputs>(packed + m * features, weight, y + m * y_row, y_row, features, m == 0);
  if (m + 2 <= rows) {
    tile<2, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
    m += 2;
  }
  if (m < rows) tile<1, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
}

template <class T>
void multiply(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features, int64_t first,
              int64_t last) {
  constexpr int64_t kSingleRowOutputs = 4;  // outputs per tile of a single row
  int64_t n = first;
  if (rows == 1)
    for (; n + kSingleRowOutputs <= last; n += kSingleRowOutputs)
      tile<1, kSingleRowOutputs>(packed, weight + n * features, y + n, y_row, features, true);
  for (; n + kTileOutputs <= last; n += kTileOutputs)
    multiply_outputs<kTileOutputs>(packed, weight + n * features, y + n, y_row, rows, features);
  for (; n < last; ++n) multiply_outputs<1>(packed, weight + n * features, y + n, y_row, rows, features);
}

}  // namespace

extern const SkinnyGemmKernels<float> MODULAR_NAME(float_skinny_gemm, MODULAR_LEVEL);
extern const SkinnyGemmKernels<Bf16> MODULAR_NAME(bf16_skinny_gemm, MODULAR_LEVEL);
const SkinnyGemmKernels<float> MODULAR_NAME(float_skinny_gemm, MODULAR_LEVEL) = {pack<float>, multiply<float>};
const SkinnyGemmKernels<Bf16> MODULAR_NAME(bf16_skinny_gemm, MODULAR_LEVEL) = {pack<Bf16>, multiply<Bf16>};

}  // namespace modular::cpu
