// bfloat16 attention on AMX. Scores and sums are float32; weights are rounded to bfloat16 before they are multiplied,
// as in FlashAttention. Compiled only for CPUs with AMX; see kernels.cc for the restrictions this implies.
#include "runtime/ops/cpu/amx_softmax.h"
#include "runtime/ops/cpu/amx_tiles.h"
#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/attention_rows.h"

namespace modular::cpu {
namespace {

static_assert(kQueryBlock == kAmxPanel && kQueryBlock == 2 * kTile);

// Bytes of a panel of 32 rows and 32 elements of the reduction dimension.
constexpr int64_t kPanelStep = 2 * kTileBytes;

// Memory that is handed out in consecutive pieces.
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

// Packs all rows of an operand as panels of its rows: [padded(rows) / 32][padded(depths) / 32].
template <bool by_pair>
void pack_all(const Vectors& from, int64_t rows, int64_t depths, char* to) {
  for (int64_t first = 0; first < rows; first += kAmxPanel, to += padded(depths) / kTileDepth * kPanelStep)
    pack_panel<by_pair>(from, first, rows, 0, depths, to);
}

// Multiplies the rows of a block of queries with the panels of keys that it sees: products [32][width].
void multiply_keys(const Block& block, const char* queries, const char* key_panels, float* products, int64_t width) {
  const int64_t steps = padded_dim(block.shape.dim) / kTileDepth;
  for (int64_t key = block.first_key; key < block.last_key(); key += kAmxPanel) {
    zero_sums();
    add_panels(static_cast<const Bf16*>(nullptr), queries, key_panels + key / kAmxPanel * steps * kPanelStep, steps);
    store_sums(products + key, width);
  }
  memory_barrier();
}

// Multiplies weights [32][width] with rows that are packed as panels of their elements, [dim / 32][padded(keys) / 32]:
// result [32][dim_width] (+)= the product.
template <bool accumulate>
void multiply_values(const Block& block, const Bf16* weights, int64_t width, const char* panels, float* result,
                     int64_t dim_width) {
  const int64_t steps = padded(block.shape.keys) / kTileDepth;
  for (int64_t d = 0; d < dim_width; d += kAmxPanel) {
    if (accumulate)
      load_sums(result + d, dim_width);
    else
      zero_sums();
    for (int64_t key = block.first_key; key < block.last_key(); key += kTileDepth) {
      _tile_loadd(4, weights + key, width * 2);
      _tile_loadd(5, weights + kTile * width + key, width * 2);
      load_right(panels + (d / kAmxPanel * steps + key / kTileDepth) * kPanelStep);
      add_matmuls();
    }
    store_sums(result + d, dim_width);
  }
  memory_barrier();
}

// sums [dim_width][keys] += rowsᵀ weights. The rows are packed as panels of their elements; the queries of the weights
// are in pairs: [32 / 2][width][2].
void add_weighted(const Block& block, const char* rows, const Bf16* weights, int64_t width, float* sums, int64_t keys,
                  int64_t dim_width) {
  for (int64_t d = 0; d < dim_width; d += kAmxPanel) {
    load_left(rows + d / kAmxPanel * kPanelStep);
    for (int64_t key = block.first_key; key < block.last_key(); key += kAmxPanel) {
      load_sums(sums + d * keys + key, keys);
      _tile_loadd(6, weights + 2 * key, width * 4);
      _tile_loadd(7, weights + 2 * (key + kTile), width * 4);
      add_matmuls();
      store_sums(sums + d * keys + key, keys);
    }
  }
  memory_barrier();
}

inline void store_elements(__m512 values, float factor, int64_t count, Bf16* to) {
  const auto rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(values, _mm512_set1_ps(factor)));
  _mm256_mask_storeu_epi16(to, first_lanes(count), reinterpret_cast<const __m256i&>(rounded));
}

void store_scaled(const float* from, float factor, int64_t dim, Bf16* to) {
  for (int64_t d = 0; d < dim; d += kTile) store_elements(_mm512_load_ps(from + d), factor, dim - d, to + d);
}

// Stores sums [dim_width][width], transposed and multiplied by `factor`, as rows of [dim].
void store_transposed(const float* sums, int64_t width, float factor, int64_t keys, int64_t dim, Bf16* to,
                      int64_t row) {
  for (int64_t first = 0; first < keys; first += kTile)
    for (int64_t d = 0; d < dim; d += kTile) {
      __m512 rows[kTile];
      transpose(sums + d * width + first, width, rows);
      for (int64_t s = 0; s < kTile && first + s < keys; ++s)
        store_elements(rows[s], factor, dim - d, to + (first + s) * row + d);
    }
}

void forward(const AttentionShape& shape, const Bf16* query, const Bf16* key, const Bf16* value, Bf16* output,
             float* log_sum_exp, float* memory) {
  const int64_t keys = padded(shape.keys), width = row_width(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  Scratch scratch = {reinterpret_cast<char*>(memory)};
  char* const key_panels = scratch.take<char>(2 * keys * dim_width);
  char* const value_panels = scratch.take<char>(2 * keys * dim_width);
  float* const products = scratch.take<float>(kQueryBlock * width);
  float* const dropped = scratch.take<float>(width);
  Bf16* const weights = scratch.take<Bf16>(kQueryBlock * width);
  char* const queries = scratch.take<char>(2 * kQueryBlock * dim_width);
  float* const mixed = scratch.take<float>(kQueryBlock * dim_width);
  const auto soften_rows = shape.biases ? soften<true> : soften<false>;
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  pack_all<true>({key, shape.key_row, 1}, shape.keys, dim, key_panels);
  pack_all<true>({value, 1, shape.value_row}, dim, shape.keys, value_panels);

  for (int64_t head = 0; head < shape.group; ++head)
    for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
      const Block block(shape, start);
      const int64_t count = smaller(shape.seq - start, kQueryBlock);
      pack_all<false>({query + head * shape.query.head + start * shape.query.row, shape.query.row, 1}, count, dim,
                      queries);
      memory_barrier();
      multiply_keys(block, queries, key_panels, products, width);
      float factors[kQueryBlock];
      soften_rows(block, head, count, products, width, dropped, weights, factors,
                  log_sum_exp + head * shape.seq + start);
      memory_barrier();
      multiply_values<false>(block, weights, width, value_panels, mixed, dim_width);
      for (int64_t i = 0; i < count; ++i)
        store_scaled(mixed + i * dim_width, factors[i], dim,
                     output + head * shape.output.head + (start + i) * shape.output.row);
    }
  _tile_release();
}

void backward(const AttentionShape& shape, const Bf16* query, const Bf16* key, const Bf16* value, const Bf16* output,
              const Bf16* grad, const float* log_sum_exp, Bf16* dquery, Bf16* dkey, Bf16* dvalue, int64_t dkey_row,
              float* dbiases, float* memory) {
  const int64_t keys = padded(shape.keys), width = row_width(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  Scratch scratch = {reinterpret_cast<char*>(memory)};
  char* const key_panels = scratch.take<char>(2 * keys * dim_width);
  char* const value_panels = scratch.take<char>(2 * keys * dim_width);
  char* const key_elements = scratch.take<char>(2 * keys * dim_width);
  float* const dkeys = scratch.take<float>(dim_width * keys);
  float* const dvalues = scratch.take<float>(dim_width * keys);
  float* const products = scratch.take<float>(kQueryBlock * width);
  float* const dweights = scratch.take<float>(kQueryBlock * width);
  float* const dropped = scratch.take<float>(2 * width);
  Bf16* const dscores = scratch.take<Bf16>(kQueryBlock * width);
  Bf16* const dscore_pairs = scratch.take<Bf16>(kQueryBlock * width);
  Bf16* const weight_pairs = scratch.take<Bf16>(kQueryBlock * width);
  char* const queries = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const query_elements = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const upstream = scratch.take<char>(2 * kQueryBlock * dim_width);
  char* const upstream_elements = scratch.take<char>(2 * kQueryBlock * dim_width);
  float* const dqueries = scratch.take<float>(kQueryBlock * dim_width);
  const auto differentiate_rows = shape.biases ? differentiate<true> : differentiate<false>;
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  pack_all<true>({key, shape.key_row, 1}, shape.keys, dim, key_panels);
  pack_all<true>({value, shape.value_row, 1}, shape.keys, dim, value_panels);
  pack_all<true>({key, 1, shape.key_row}, dim, shape.keys, key_elements);
  zero(dkeys, 0, 2 * keys * dim_width);

  // The softmax of biased scores needs all of a row's scores.
  const int64_t bytes_per_key = (3 * 2 + 2 * 4) * dim_width + kQueryBlock * (2 * 4 + 3 * 2);
  const int64_t span = shape.biases ? keys : find_span(keys, bytes_per_key);
  for (int64_t head = 0; head < shape.group; ++head) {
    zero(dqueries, 0, padded(shape.seq) * dim_width);
    for (int64_t first = 0; first < shape.keys; first += span)
      for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
        const Block block(shape, start, {first, smaller(first + span, shape.keys)});
        if (block.last_key() == block.first_key) continue;
        const int64_t count = smaller(shape.seq - start, kQueryBlock);
        const Bf16* const queries_at = query + head * shape.query.head + start * shape.query.row;
        const Bf16* const upstream_at = grad + head * shape.output.head + start * shape.output.row;
        const Bf16* const output_at = output + head * shape.output.head + start * shape.output.row;
        pack_all<false>({queries_at, shape.query.row, 1}, count, dim, queries);
        pack_all<false>({queries_at, 1, shape.query.row}, dim, count, query_elements);
        pack_all<false>({upstream_at, shape.output.row, 1}, count, dim, upstream);
        pack_all<false>({upstream_at, 1, shape.output.row}, dim, count, upstream_elements);
        memory_barrier();
        multiply_keys(block, queries, key_panels, products, width);
        multiply_keys(block, upstream, value_panels, dweights, width);
        float dots[kQueryBlock];  // of the output and its gradient, for the backward of the softmax
        for (int64_t i = 0; i < count; ++i)
          dots[i] = compute_dot(upstream_at + i * shape.output.row, output_at + i * shape.output.row, dim);
        differentiate_rows(block, head, count, products, dweights, width,
                           {.dots = dots,
                            .normalizers = log_sum_exp + head * shape.seq + start,
                            .dropped = dropped,
                            .rows = dscores,
                            .pairs = dscore_pairs,
                            .weight_pairs = weight_pairs,
                            .biases = dbiases ? dbiases + head * shape.seq * shape.keys : nullptr});
        memory_barrier();
        multiply_values<true>(block, dscores, width, key_elements, dqueries + start * dim_width, dim_width);
        add_weighted(block, query_elements, dscore_pairs, width, dkeys, keys, dim_width);
        add_weighted(block, upstream_elements, weight_pairs, width, dvalues, keys, dim_width);
      }
    for (int64_t s = 0; s < shape.seq; ++s)
      store_scaled(dqueries + s * dim_width, shape.scale, dim,
                   dquery + head * shape.output.head + s * shape.output.row);
  }
  _tile_release();
  store_transposed(dkeys, keys, shape.scale, shape.keys, dim, dkey, dkey_row);
  store_transposed(dvalues, keys, 1.0f, shape.keys, dim, dvalue, dkey_row);
}

}  // namespace

extern const AttentionKernels<Bf16> bf16_attention_amx;
const AttentionKernels<Bf16> bf16_attention_amx = {forward, backward};

}  // namespace modular::cpu
