// The softmax of a block of attention rows and its derivative, between two AMX GEMMs: products in float32, weights in
// bfloat16. Included only by files that are compiled for CPUs with AMX, so everything has internal linkage (see
// kernels.cc).
#pragma once

#include <immintrin.h>

#include "runtime/ops/cpu/amx_tiles.h"
#include "runtime/ops/cpu/attention_rows.h"

namespace modular::cpu {
namespace {

constexpr float kLog2E = 1.44269504088896341f;

// 2 to the power of t (Cephes' coefficients on [-1/2, 1/2]); 0 below the smallest normal number. Propagates NaN.
inline __m512 power_of_two(__m512 t) {
  const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), r = _mm512_sub_ps(t, n);
  __m512 p = _mm512_set1_ps(1.535336188319500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.339887440266574e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.618437357674640e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.550332471162809e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.402264791363012e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.931472028550421e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ), p, n);
}

// A query of a block: the keys that it sees, and its scores.
template <bool biased>
struct QueryRow {
  const AttentionShape& shape;
  KeyRange range;
  int64_t document;
  const float* biases;

  QueryRow(const Block& block, int64_t head, int64_t i)
      : shape(block.shape),
        range(block.find_range(i)),
        document(shape.documents ? block.document(i) : 0),
        biases(biased ? shape.biases + head * shape.bias.head + (block.start + i) * shape.bias.row : nullptr) {}

  // Mask of the visible keys among the 16 from j on.
  __mmask16 seen(int64_t j) const {
    const auto before = [j](int64_t end) {
      return _bzhi_u32(0xffff, static_cast<uint32_t>(end - j < 0 ? 0 : end - j < kTile ? end - j : kTile));
    };
    auto keys = static_cast<__mmask16>(before(range.last) & ~before(range.first));
    if (shape.present) {
      const __m128i present = _mm_maskz_loadu_epi8(keys, shape.present + j);
      keys = _mm_test_epi8_mask(present, present);
    }
    if (shape.documents) {
      const auto own = [&](int64_t first, uint32_t half) {
        const __m512i documents = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(half), shape.documents + first);
        return static_cast<uint32_t>(
            _mm512_mask_cmpeq_epi64_mask(static_cast<__mmask8>(half), documents, _mm512_set1_epi64(document)));
      };
      keys = static_cast<__mmask16>(own(j, keys & 0xffu) | own(j + 8, static_cast<uint32_t>(keys) >> 8) << 8);
    }
    return keys;
  }

  // Scores from the products of the keys from j on. Without biases, the scale is applied together with log2(e).
  __m512 scores(__m512 products, int64_t j, __mmask16 keys) const {
    if constexpr (!biased) return products;
    return _mm512_fmadd_ps(products, _mm512_set1_ps(shape.scale), _mm512_maskz_loadu_ps(keys, biases + j));
  }

  // exp(score - largest - rest), 0 for hidden keys. The largest score is subtracted first, unscaled, so that a large
  // value does not absorb the rest.
  __m512 weights(__m512 scores, float largest, float rest, __mmask16 keys) const {
    const __m512 times = _mm512_set1_ps(biased ? kLog2E : shape.scale * kLog2E);
    const __m512 below = _mm512_sub_ps(scores, _mm512_set1_ps(largest));
    return _mm512_maskz_mov_ps(keys, power_of_two(_mm512_fmsub_ps(below, times, _mm512_set1_ps(rest * kLog2E))));
  }
};

// The largest score of a row; -infinity if it sees no key, or only NaN scores, because NaN compares false.
template <bool biased>
float find_largest(const QueryRow<biased>& row, const Block& block, const float* products) {
  __m512 largest = _mm512_set1_ps(-__builtin_inff());
  for (int64_t j = block.first_key; j < block.last_key(); j += kTile) {
    const __mmask16 keys = row.seen(j);
    largest = _mm512_mask_max_ps(largest, keys, row.scores(_mm512_load_ps(products + j), j, keys), largest);
  }
  return _mm512_reduce_max_ps(largest);
}

template <bool biased>
bool sees_a_nan(const QueryRow<biased>& row, const Block& block, const float* products) {
  for (int64_t j = block.first_key; j < block.last_key(); j += kTile) {
    const __mmask16 keys = row.seen(j);
    const __m512 scores = row.scores(_mm512_load_ps(products + j), j, keys);
    if (_mm512_mask_cmp_ps_mask(keys, scores, scores, _CMP_UNORD_Q)) return true;
  }
  return false;
}

// Dropout factors of the weights of query i, from the block's first key on.
inline void drop_factors(const Block& block, int64_t head, int64_t i, float* factors) {
  for (int64_t j = block.first_key; j < block.last_key(); j += kTile)
    _mm512_store_ps(factors + j, _mm512_set1_ps(1.0f));
  drop(block, head, i, factors, [](int64_t, float) {});
}

inline void store_bf16(Bf16* to, __m512 values) {
  const auto rounded = _mm512_cvtneps_pbh(values);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<const __m256i&>(rounded));
}

// Softmax of the products [32][width] of a block's queries and keys. Writes exp(score - the row's largest) after
// dropout to `weights`, with the same rows, and 1 / the row's sum before dropout to `factors` [32], 0 for a query that
// sees no key. `dropped` is scratch for one row.
template <bool biased>
void soften(const Block& block, int64_t head, int64_t count, const float* products, int64_t width, float* dropped,
            Bf16* weights, float* factors, float* log_sum_exp) {
  const int64_t end = block.last_key();
  float largest[kQueryBlock];
  for (int64_t i = 0; i < count; ++i)
    largest[i] = find_largest(QueryRow<biased>(block, head, i), block, products + i * width);
  for (int64_t i = 0; i < kQueryBlock; ++i, products += width, weights += width) {
    const bool is_query = i < count;
    const QueryRow<biased> row(block, head, is_query ? i : 0);
    bool is_seen = is_query && largest[i] > -__builtin_inff();
    if (is_query && !is_seen && sees_a_nan(row, block, products)) {
      largest[i] = 0.0f;
      is_seen = true;
    }
    if (!is_seen) {
      for (int64_t j = block.first_key; j < end; j += kTile) store_bf16(weights + j, _mm512_setzero_ps());
      if (!is_query) continue;
      factors[i] = 0.0f;
      log_sum_exp[i] = __builtin_inff();  // makes the backward's weights 0 too
      continue;
    }
    const bool drops = block.shape.drop;
    if (drops) drop_factors(block, head, i, dropped);
    __m512 sums = _mm512_setzero_ps();
    for (int64_t j = block.first_key; j < end; j += kTile) {
      const __mmask16 keys = row.seen(j);
      __m512 weight = row.weights(row.scores(_mm512_load_ps(products + j), j, keys), largest[i], 0.0f, keys);
      sums = _mm512_add_ps(sums, weight);
      if (drops) weight = _mm512_maskz_mul_ps(keys, weight, _mm512_load_ps(dropped + j));
      store_bf16(weights + j, weight);
    }
    const float sum = _mm512_reduce_add_ps(sums);
    factors[i] = 1.0f / sum;
    log_sum_exp[i] = (biased ? 0.0f : largest[i] * block.shape.scale) + __builtin_logf(sum);
  }
}

// Interleaves the elements of two bfloat16 rows.
inline __m512i in_pairs(__m512i rows) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), rows);
}

inline __m512i bf16_rows(__m512 first, __m512 second) {
  const auto rounded = _mm512_cvtne2ps_pbh(second, first);
  return reinterpret_cast<const __m512i&>(rounded);
}

// Inputs and outputs of a block's backward in addition to the products, with rows of `width`.
struct Differentials {
  const float* dots;         // [32] dot product of each query's output and its gradient
  const float* normalizers;  // [32] log-sum-exp of the forward, for existing queries
  float* dropped;            // scratch for two rows
  Bf16* rows;                // [32][width] gradients of the scores
  Bf16* pairs;               // [32 / 2][width][2] gradients of the scores
  Bf16* weight_pairs;        // [32 / 2][width][2] weights after dropout
  float* biases;             // [seq, keys] of the head: accumulates the gradients of the scores; or null
};

// Computes `to` from the products of a block's queries and keys (`products`) and of the output's gradients and values
// (`dweights`); 0 for keys that a query does not see.

template <bool biased>
void differentiate(const Block& block, int64_t head, int64_t count, const float* products, const float* dweights,
                   int64_t width, const Differentials& to) {
  const bool drops = block.shape.drop;
  for (int64_t i = 0; i < kQueryBlock; i += 2) {
    const QueryRow<biased> rows[2] = {{block, head, i < count ? i : 0}, {block, head, i + 1 < count ? i + 1 : 0}};
    float largest[2] = {}, normalizers[2] = {}, dots[2] = {};
    for (int64_t r = 0; r < 2; ++r) {
      if (i + r >= count) continue;
      dots[r] = to.dots[i + r];
      normalizers[r] = to.normalizers[i + r];
      if constexpr (biased) largest[r] = find_largest(rows[r], block, products + (i + r) * width);
      if (largest[r] == -__builtin_inff()) largest[r] = 0.0f;
      if (drops) drop_factors(block, head, i + r, to.dropped + r * width);
    }
    for (int64_t j = block.first_key; j < block.last_key(); j += kTile) {
      __m512 weight[2], dscore[2];
      for (int64_t r = 0; r < 2; ++r) {
        const __mmask16 keys = i + r < count ? rows[r].seen(j) : static_cast<__mmask16>(0);
        const int64_t at = (i + r) * width + j;
        weight[r] =
            rows[r].weights(rows[r].scores(_mm512_load_ps(products + at), j, keys), largest[r], normalizers[r], keys);
        __m512 dweight = _mm512_maskz_load_ps(keys, dweights + at);
        const __m512 own = weight[r];
        if (drops) {
          const __m512 factor = _mm512_maskz_load_ps(keys, to.dropped + r * width + j);
          dweight = _mm512_mul_ps(dweight, factor);
          weight[r] = _mm512_mul_ps(weight[r], factor);
        }
        dscore[r] = _mm512_maskz_mul_ps(keys, own, _mm512_sub_ps(dweight, _mm512_set1_ps(dots[r])));
        if (to.biases && keys) {
          float* const sum = to.biases + (block.start + i + r) * block.shape.keys + j;
          _mm512_mask_storeu_ps(sum, keys, _mm512_add_ps(_mm512_maskz_loadu_ps(keys, sum), dscore[r]));
        }
      }
      const __m512i rounded = bf16_rows(dscore[0], dscore[1]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.rows + i * width + j), _mm512_castsi512_si256(rounded));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.rows + (i + 1) * width + j),
                         _mm512_extracti64x4_epi64(rounded, 1));
      _mm512_store_si512(to.pairs + i * width + 2 * j, in_pairs(rounded));
      _mm512_store_si512(to.weight_pairs + i * width + 2 * j, in_pairs(bf16_rows(weight[0], weight[1])));
    }
  }
}

}  // namespace
}  // namespace modular::cpu
