// Compiled once per instruction set; see kernels.cc for the restrictions this implies.
#include "runtime/ops/cpu/cached_attention_kernel.h"

#include "runtime/ops/cpu/vector_math.h"

namespace modular::cpu {
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

}  // namespace modular::cpu
