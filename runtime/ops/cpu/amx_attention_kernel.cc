// Attention of bfloat16 by the tile unit. Scores and sums are float32; weights are rounded to bfloat16 before they are
// multiplied, as FlashAttention has it. Compiled for processors with AMX alone; see kernels.cc for what that forbids.
#include "runtime/ops/cpu/amx_tiles.h"
#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/attention_rows.h"

namespace modular::cpu {
namespace {

static_assert(kQueryBlock == kAmxPanel && kQueryBlock == 2 * kTile);

// Bytes of a panel of 32 rows and 32 of the dimension that is summed over.
constexpr int64_t kPanelStep = 2 * kTileBytes;

// Memory that is handed out piece by piece.
struct Scratch {
  char* at;
  template <class T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(at);
    at += count * static_cast<int64_t>(sizeof(T));
    return taken;
  }
};

using Vectors = MatrixOperand<Bf16>;

// All of the rows of an operand as panels of its rows: [padded(rows) / 32][padded(depths) / 32].
template <bool by_pair>
void pack_all(const Vectors& from, int64_t rows, int64_t depths, char* to) {
  for (int64_t first = 0; first < rows; first += kAmxPanel, to += padded(depths) / kTileDepth * kPanelStep)
    pack_panel<by_pair>(from, first, rows, 0, depths, to);
}

// The rows of a block of queries, times the panels of keys that it sees: scores [32][width], times `factor`.
void multiply_keys(const Block& block, const char* queries, const char* key_panels, float* scores, int64_t width,
                   float factor) {
  const int64_t steps = padded_dim(block.shape.dim) / kTileDepth;
  for (int64_t key = block.first_key; key < block.last_key(); key += kAmxPanel) {
    zero_sums();
    add_panels(static_cast<const Bf16*>(nullptr), queries, key_panels + key / kAmxPanel * steps * kPanelStep, steps);
    store_sums(scores + key, width);
  }
  memory_barrier();
  if (factor == 1.0f) return;
  for (int64_t i = 0; i < kQueryBlock; ++i)
    for (int64_t j = block.first_key; j < block.last_key(); j += kTile) {
      float* const at = scores + i * width + j;
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(factor)));
    }
}

// weights [32][width] times rows that were packed as panels of their elements, [dim / 32][padded(keys) / 32]: result
// [32][dim_width].
void multiply_values(const Block& block, const Bf16* weights, int64_t width, const char* panels, float* result,
                     int64_t dim_width) {
  const int64_t steps = width / kTileDepth;
  for (int64_t d = 0; d < dim_width; d += kAmxPanel) {
    zero_sums();
    for (int64_t key = block.first_key; key < block.last_key(); key += kTileDepth) {
      _tile_loadd(4, weights + key, width * 2);
      _tile_loadd(5, weights + kTile * width + key, width * 2);
      load_right(panels + (d / kAmxPanel * steps + key / kTileDepth) * kPanelStep);
      add_products();
    }
    store_sums(result + d, dim_width);
  }
  memory_barrier();
}

// sums [dim_width][width] += the transpose of rows, packed as panels of their elements, times weights, whose queries
// are in pairs: [32 / 2][width][2].
void add_weighted(const Block& block, const char* rows, const Bf16* weights, int64_t width, float* sums,
                  int64_t dim_width) {
  for (int64_t d = 0; d < dim_width; d += kAmxPanel) {
    load_left(rows + d / kAmxPanel * kPanelStep);
    for (int64_t key = block.first_key; key < block.last_key(); key += kAmxPanel) {
      load_sums(sums + d * width + key, width);
      _tile_loadd(6, weights + 2 * key, width * 4);
      _tile_loadd(7, weights + 2 * (key + kTile), width * 4);
      add_products();
      store_sums(sums + d * width + key, width);
    }
  }
  memory_barrier();
}

// Rows as bfloat16, from a block's first key to its last.
void round_rows(const Block& block, const float* rows, Bf16* to, int64_t width) {
  for (int64_t i = 0; i < kQueryBlock; ++i)
    for (int64_t j = block.first_key; j < block.last_key(); j += 2 * kTile) {
      const float* const at = rows + i * width + j;
      const auto rounded = _mm512_cvtne2ps_pbh(_mm512_load_ps(at + kTile), _mm512_load_ps(at));
      _mm512_store_si512(to + i * width + j, reinterpret_cast<const __m512i&>(rounded));
    }
  memory_barrier();
}

inline __m512i rounded_bits(const float* at) {
  const auto rounded = _mm512_cvtneps_pbh(_mm512_load_ps(at));
  return _mm512_cvtepu16_epi32(reinterpret_cast<const __m256i&>(rounded));
}

// The same with rows in pairs: [32 / 2][width][2].
void round_pairs(const Block& block, const float* rows, Bf16* to, int64_t width) {
  for (int64_t i = 0; i < kQueryBlock; i += 2)
    for (int64_t j = block.first_key; j < block.last_key(); j += kTile) {
      const __m512i first = rounded_bits(rows + i * width + j), second = rounded_bits(rows + (i + 1) * width + j);
      _mm512_store_si512(to + i * width + 2 * j, _mm512_or_si512(first, _mm512_slli_epi32(second, 16)));
    }
  memory_barrier();
}

void store_scaled(const float* from, float factor, int64_t dim, Bf16* to) {
  for (int64_t d = 0; d < dim; d += kTile) {
    const auto rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_loadu_ps(from + d), _mm512_set1_ps(factor)));
    _mm256_mask_storeu_epi16(to + d, first_of(dim - d), reinterpret_cast<const __m256i&>(rounded));
  }
}

// sums [dim_width][width], transposed and times `factor`, as rows of [dim].
void store_transposed(const float* sums, int64_t width, float factor, int64_t keys, int64_t dim, Bf16* to,
                      int64_t row) {
  for (int64_t first = 0; first < keys; first += kTile)
    for (int64_t d = 0; d < dim; d += kTile) {
      __m512 rows[kTile];
      transpose(sums + d * width + first, width, rows);
      for (int64_t s = 0; s < kTile && first + s < keys; ++s) {
        alignas(64) float values[kTile];
        _mm512_store_ps(values, rows[s]);
        store_scaled(values, factor, dim - d < kTile ? dim - d : kTile, to + (first + s) * row + d);
      }
    }
}

void forward(const AttentionShape& shape, const Bf16* query, const Bf16* key, const Bf16* value, Bf16* output,
             float* log_sum_exp, float* memory) {
  const int64_t width = padded(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  Scratch scratch = {reinterpret_cast<char*>(memory)};
  char* const key_panels = scratch.take<char>(2 * width * dim_width);
  char* const value_panels = scratch.take<char>(2 * width * dim_width);
  float* const scores = scratch.take<float>(kQueryBlock * width);
  Bf16* const weights = scratch.take<Bf16>(kQueryBlock * width);
  char* const queries = scratch.take<char>(2 * kQueryBlock * dim_width);
  float* const mixed = scratch.take<float>(kQueryBlock * dim_width);
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  pack_all<true>({key, shape.key_row, 1}, shape.keys, dim, key_panels);
  pack_all<true>({value, 1, shape.value_row}, dim, shape.keys, value_panels);

  for (int64_t head = 0; head < shape.group; ++head)
    for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
      const Block block(shape, start);
      const int64_t count = shape.seq - start < kQueryBlock ? shape.seq - start : kQueryBlock;
      pack_all<false>({query + head * shape.query.head + start * shape.query.row, shape.query.row, 1}, count, dim,
                      queries);
      memory_barrier();
      multiply_keys(block, queries, key_panels, scores, width, shape.scale);
      float factors[kQueryBlock];
      for (int64_t i = 0; i < kQueryBlock; ++i) {
        float* const row = scores + i * width;
        if (i >= count) {
          zero(row, block.first_key, block.last_key());
          continue;
        }
        if (shape.biases) add_biases(block, head, i, row);
        factors[i] = exponentiate(block, i, row, log_sum_exp + head * shape.seq + start + i);
        if (shape.drop) drop(block, head, i, row, [](int64_t, float) {});
      }
      round_rows(block, scores, weights, width);
      multiply_values(block, weights, width, value_panels, mixed, dim_width);
      for (int64_t i = 0; i < count; ++i)
        store_scaled(mixed + i * dim_width, factors[i], dim,
                     output + head * shape.output.head + (start + i) * shape.output.row);
    }
  _tile_release();
}

void backward(const AttentionShape& shape, const Bf16* query, const Bf16* key, const Bf16* value, const Bf16* output,
              const Bf16* grad, const float* log_sum_exp, Bf16* dquery, Bf16* dkey, Bf16* dvalue, int64_t dkey_row,
              float* dbiases, float* memory) {
  const int64_t width = padded(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  Scratch scratch = {reinterpret_cast<char*>(memory)};
  char* const key_panels = scratch.take<char>(2 * width * dim_width);
  char* const value_panels = scratch.take<char>(2 * width * dim_width);
  char* const key_elements = scratch.take<char>(2 * width * dim_width);
  float* const dkeys = scratch.take<float>(dim_width * width);
  float* const dvalues = scratch.take<float>(dim_width * width);
  float* const weights = scratch.take<float>(kQueryBlock * width);
  float* const dweights = scratch.take<float>(kQueryBlock * width);
  Bf16* const rounded = scratch.take<Bf16>(kQueryBlock * width);
  char* const queries = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const query_elements = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const upstream = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const upstream_elements = scratch.take<char>(2 * kQueryBlock * dim_width);
  float* const dqueries = scratch.take<float>(kQueryBlock * dim_width);
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  pack_all<true>({key, shape.key_row, 1}, shape.keys, dim, key_panels);
  pack_all<true>({value, shape.value_row, 1}, shape.keys, dim, value_panels);
  pack_all<true>({key, 1, shape.key_row}, dim, shape.keys, key_elements);
  zero(dkeys, 0, 2 * width * dim_width);

  for (int64_t head = 0; head < shape.group; ++head)
    for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
      const Block block(shape, start);
      const int64_t count = shape.seq - start < kQueryBlock ? shape.seq - start : kQueryBlock;
      const Bf16* const asked = query + head * shape.query.head + start * shape.query.row;
      const Bf16* const given = grad + head * shape.output.head + start * shape.output.row;
      const Bf16* const mixed = output + head * shape.output.head + start * shape.output.row;
      pack_all<false>({asked, shape.query.row, 1}, count, dim, queries);
      pack_all<false>({asked, 1, shape.query.row}, dim, count, query_elements);
      pack_all<false>({given, shape.output.row, 1}, count, dim, upstream);
      pack_all<false>({given, 1, shape.output.row}, dim, count, upstream_elements);
      memory_barrier();
      multiply_keys(block, queries, key_panels, weights, width, shape.scale);
      multiply_keys(block, upstream, value_panels, dweights, width, 1.0f);
      for (int64_t i = 0; i < kQueryBlock; ++i) {
        float *const weight = weights + i * width, *const dweight = dweights + i * width;
        if (i < count) {
          const float dot = dot_of(given + i * shape.output.row, mixed + i * shape.output.row, dim);
          differentiate_row(block, head, i, weight, dweight, dot, log_sum_exp[head * shape.seq + start + i], dbiases);
        } else {
          zero(weight, block.first_key, block.last_key());
          zero(dweight, block.first_key, block.last_key());
        }
      }
      round_rows(block, dweights, rounded, width);
      multiply_values(block, rounded, width, key_elements, dqueries, dim_width);
      round_pairs(block, dweights, rounded, width);
      add_weighted(block, query_elements, rounded, width, dkeys, dim_width);
      round_pairs(block, weights, rounded, width);
      add_weighted(block, upstream_elements, rounded, width, dvalues, dim_width);
      for (int64_t i = 0; i < count; ++i)
        store_scaled(dqueries + i * dim_width, shape.scale, dim,
                     dquery + head * shape.output.head + (start + i) * shape.output.row);
    }
  _tile_release();
  store_transposed(dkeys, width, shape.scale, shape.keys, dim, dkey, dkey_row);
  store_transposed(dvalues, width, 1.0f, shape.keys, dim, dvalue, dkey_row);
}

}  // namespace

extern const AttentionKernels<Bf16> bf16_attention_amx;
const AttentionKernels<Bf16> bf16_attention_amx = {forward, backward};

}  // namespace modular::cpu
