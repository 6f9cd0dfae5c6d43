// A block of queries, the keys that each query sees, and the softmax of their scores, shared by the attention kernels.
// Included only by files that are compiled once per instruction set, so everything has internal linkage (see
// kernels.cc).
#pragma once

#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/vector_math.h"

namespace modular::cpu {
namespace {

// A GEMM tile: kTileRows x 2 vectors of accumulators, as many as fit in the registers next to the operands. With AMX, a
// tile is a full block.
#if defined(__AMX_TILE__)
constexpr int64_t kTileRows = kQueryBlock;
#elif defined(__AVX512F__)
constexpr int64_t kTileRows = 8;
#else
constexpr int64_t kTileRows = 4;
#endif
static_assert(kQueryBlock % kTileRows == 0);

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The number of keys that are taken at a time, a multiple of kQueryBlock: all, if they fit in a core's cache, of 2 MiB;
// otherwise as many as take a quarter of it.
inline int64_t find_span(int64_t keys, int64_t bytes_per_key) {
  constexpr int64_t cache = int64_t{1} << 21, fewest = 4 * kQueryBlock;
  if (keys * bytes_per_key <= cache) return keys;
  const int64_t span = cache / 4 / bytes_per_key / kQueryBlock * kQueryBlock;
  return span > fewest ? span : fewest;
}

// A block of queries and the keys that they see of a span of keys, by default of all.
struct Block {
  const AttentionShape& shape;
  int64_t start;      // index of the first query
  KeyRange span;      // begins at a multiple of kQueryBlock, and ends at one or with the keys
  int64_t first_key;  // a multiple of kQueryBlock
  // End of the keys whose scores are computed, for each tile of queries, so that keys above the diagonal cost almost
  // nothing. The ends do not decrease, and are first_key plus multiples of kTileRows.
  int64_t ends[kQueryBlock / kTileRows];

  Block(const AttentionShape& shape, int64_t start) : Block(shape, start, {0, shape.keys}) {}

  Block(const AttentionShape& shape, int64_t start, const KeyRange& span)
      : shape(shape), start(start), span(span), first_key(span.last) {
    const int64_t count = smaller(shape.seq - start, kQueryBlock);
    for (int64_t i = 0; i < count; ++i) {
      const KeyRange range = visible(i);
      if (range.first < range.last && range.first < first_key) first_key = range.first;
    }
    first_key = first_key / kQueryBlock * kQueryBlock;
    int64_t end = first_key;
    for (int64_t i = 0; i < kQueryBlock; ++i) {
      const int64_t last = i < count ? visible(i).last : 0;
      if (last > end) end = first_key + (last - first_key + kTileRows - 1) / kTileRows * kTileRows;
      ends[i / kTileRows] = end;
    }
  }

  // The keys of the span that query i sees; the range is empty or negative if it sees none.
  KeyRange visible(int64_t i) const {
    const KeyRange& all = shape.visible[start + i];
    return {all.first > span.first ? all.first : span.first, smaller(all.last, span.last)};
  }

  int64_t end_of_tile(int64_t i) const { return ends[i / kTileRows]; }
  int64_t last_key() const { return ends[kQueryBlock / kTileRows - 1]; }

  // The keys that query i sees, from first_key on; both ends are first_key if it sees none.
  KeyRange find_range(int64_t i) const {
    const KeyRange range = visible(i);
    return range.first < range.last ? range : KeyRange{first_key, first_key};
  }

  // The document of query i, if there are documents.
  int64_t document(int64_t i) const { return shape.documents[shape.keys - shape.seq + start + i]; }
};

inline void zero(float* row, int64_t first, int64_t last) {
  for (int64_t j = first; j < last; ++j) row[j] = 0.0f;
}

// Sets the scores that query i must not see to -infinity, within the range rounded out to full vectors, which is
// returned: a scalar exponential at each row's end would cost as much as the row.
inline KeyRange hide(const Block& block, int64_t i, float* scores) {
  const KeyRange range = block.find_range(i);
  const int64_t first = block.first_key + (range.first - block.first_key) / kVector * kVector;
  const int64_t last = first + (range.last - first + kVector - 1) / kVector * kVector;
  for (int64_t j = first; j < range.first; ++j) scores[j] = -__builtin_inff();
  if (const bool* present = block.shape.present) {
#pragma omp simd
    for (int64_t j = range.first; j < range.last; ++j) scores[j] = present[j] ? scores[j] : -__builtin_inff();
  }
  if (const int64_t* documents = block.shape.documents) {
    const int64_t own = block.document(i);
#pragma omp simd
    for (int64_t j = range.first; j < range.last; ++j) scores[j] = documents[j] == own ? scores[j] : -__builtin_inff();
  }
  for (int64_t j = range.last; j < last; ++j) scores[j] = -__builtin_inff();
  return {first, last};
}

inline void add_biases(const Block& block, int64_t head, int64_t i, float* scores) {
  const AttentionShape& shape = block.shape;
  const float* biases = shape.biases + head * shape.bias.head + (block.start + i) * shape.bias.row;
  const KeyRange range = block.find_range(i);
#pragma omp simd
  for (int64_t j = range.first; j < range.last; ++j) scores[j] += biases[j];
}

inline float larger(float a, float b) { return a > b ? a : b; }

// The largest of full vectors of scores. NaN compares false and is ignored.
inline float largest_score(const float* row, const KeyRange& range) {
  float largest[kVector];
  for (int64_t v = 0; v < kVector; ++v) largest[v] = -__builtin_inff();
  for (int64_t j = range.first; j < range.last; j += kVector)
    for (int64_t v = 0; v < kVector; ++v) largest[v] = larger(row[j + v], largest[v]);
  return combined(largest, larger);
}

// The softmax of a query's scores so far (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
struct RunningSoftmax {
  float largest;  // of the scores; -infinity before the first
  float sum;      // of exp(score - largest)
};

// Replaces the row with exp(score - largest), 0 for keys that query i does not see, and adds the scores to `softmax`.
// Returns the factor of what the weights before have been added to.
inline float exponentiate(const Block& block, int64_t i, float* row, RunningSoftmax& softmax) {
  const auto [first, last] = hide(block, i, row);
  zero(row, block.first_key, first);
  const float before = softmax.largest;
  float largest = larger(largest_score(row, {first, last}), before), sums[kVector] = {};
  if (largest == -__builtin_inff()) {
    bool is_number = true;  // comparisons ignore NaN
    for (int64_t j = first; j < last; ++j) is_number = is_number && row[j] == row[j];
    if (is_number) {
      zero(row, first, block.end_of_tile(i));
      return 1.0f;
    }
    largest = 0.0f;
  }
  for (int64_t j = first; j < last; j += kVector)
    for (int64_t v = 0; v < kVector; ++v) {
      const float weight = exponential_of_negative(row[j + v] - largest);
      row[j + v] = weight;
      sums[v] += weight;
    }
  zero(row, block.find_range(i).last, block.end_of_tile(i));
  const bool keeps = before == largest || before == -__builtin_inff();  // or there is nothing to scale
  const float factor = keeps ? 1.0f : __builtin_expf(before - largest);
  softmax = {largest, softmax.sum * factor + reduce_sum(sums)};
  return factor;
}

// Multiplies query i's row of weights by its dropout factors, and calls before(j, factor) for each weight first.
template <class Before>
inline void drop(const Block& block, int64_t head, int64_t i, float* row, Before&& before) {
  Drop drop = *block.shape.drop;
  drop.plane += static_cast<uint32_t>(head);
  for_each_word(drop, static_cast<uint32_t>(drop.first_row + block.start + i), block.first_key,
                block.find_range(i).last, [&](int64_t key, const uint32_t* words, int64_t count) {
#pragma omp simd
                  for (int64_t j = 0; j < count; ++j) {
                    const float factor = words[j] >= drop.threshold ? drop.scale : 0.0f;
                    before(key + j, factor);
                    row[key + j] *= factor;
                  }
                });
}

// Turns query i's scores in `weight` into its weights after dropout, and the gradients of its weights in `dweight` into
// the gradients of its scores; 0 for hidden keys. `dot` is the dot product of its output and the output's gradient,
// `normalizer` the forward's log-sum-exp.
inline void differentiate_row(const Block& block, int64_t head, int64_t i, float* weight, float* dweight, float dot,
                              float normalizer, float* dbiases) {
  const AttentionShape& shape = block.shape;
  if (shape.biases) add_biases(block, head, i, weight);
  const KeyRange range = hide(block, i, weight);
  const int64_t last = block.find_range(i).last;
  if (shape.biases) {
    const float largest = largest_score(weight, range);
    if (largest > -__builtin_inff())
      for (int64_t j = range.first; j < range.last; ++j) weight[j] -= largest;
  }
  zero(weight, block.first_key, range.first);
  zero(dweight, block.first_key, range.first);
  if (shape.drop) {
    for (int64_t j = range.first; j < range.last; j += kVector)
#pragma omp simd
      for (int64_t v = 0; v < kVector; ++v) weight[j + v] = exponential(weight[j + v] - normalizer);
    drop(block, head, i, weight,
         [&](int64_t j, float factor) { dweight[j] = weight[j] * (dweight[j] * factor - dot); });
  } else {
    for (int64_t j = range.first; j < range.last; j += kVector)
#pragma omp simd
      for (int64_t v = 0; v < kVector; ++v) {
        weight[j + v] = exponential(weight[j + v] - normalizer);
        dweight[j + v] = weight[j + v] * (dweight[j + v] - dot);
      }
  }
  if (dbiases) {
    float* const sums = dbiases + (head * shape.seq + block.start + i) * shape.keys;
#pragma omp simd
    for (int64_t j = block.find_range(i).first; j < last; ++j) sums[j] += dweight[j];
  }
  zero(weight, last, block.end_of_tile(i));
  zero(dweight, last, block.end_of_tile(i));
}

// The dot product of two rows.
template <class T>
inline float compute_dot(const T* a, const T* b, int64_t count) {
  float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
  for (int64_t d = 0; d < count; ++d) dot += load(a + d) * load(b + d);
  return dot;
}

}  // namespace
}  // namespace modular::cpu
