// Compiled once per instruction set; see kernels.cc for the restrictions this implies.
#include "runtime/ops/cpu/attention_kernel.h"

#include "runtime/ops/cpu/attention_rows.h"

namespace modular::cpu {
namespace {

constexpr int64_t kPanel = 2 * kVector;  // columns of a GEMM tile
static_assert(kQueryBlock % kPanel == 0);

typedef float Vector __attribute__((vector_size(kVector * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load_vector(const float* p) { return *reinterpret_cast<const Vector*>(p); }
inline void store_vector(float* p, Vector value) { *reinterpret_cast<Vector*>(p) = value; }

// One tile of c (+)= a b. Element (r, k) of a is a[r * a_row + k * a_step]; row k of b starts at b + k * b_step.
template <bool accumulate>
inline void tile(int64_t depth, const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_step, float* c,
                 int64_t c_row) {
  Vector sums[kTileRows][2];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t v = 0; v < 2; ++v) sums[r][v] = accumulate ? load_vector(c + r * c_row + v * kVector) : Vector{};
  for (int64_t k = 0; k < depth; ++k, a += a_step, b += b_step) {
    const Vector left = load_vector(b), right = load_vector(b + kVector);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kTileRows; ++r) {
      const float factor = a[r * a_row];
      sums[r][0] += left * factor;
      sums[r][1] += right * factor;
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t v = 0; v < 2; ++v) store_vector(c + r * c_row + v * kVector, sums[r][v]);
}

// Prefetches rows that are needed soon. They are short and far apart, a pattern that hardware prefetchers do not
// detect.
template <bool to_write, class T>
inline void prefetch_rows(const T* x, int64_t row, int64_t count, int64_t dim) {
  constexpr int64_t line = 64 / sizeof(T);
  for (int64_t s = 0; s < count; ++s)
    for (int64_t d = 0; d < dim; d += line) __builtin_prefetch(x + s * row + d, to_write ? 1 : 0, 2);
}

constexpr int64_t kAhead = 24;  // prefetch distance of packing loops, in rows

// Packs rows of x as float32 [rows][width], multiplied by `factor`; 0 beyond count and dim.
template <class T>
void pack_rows(const T* x, int64_t row, int64_t count, int64_t dim, int64_t rows, int64_t width, float factor,
               float* packed) {
  for (int64_t s = 0; s < rows; ++s, packed += width) {
    if (s + kAhead < count) prefetch_rows<false>(x + (s + kAhead) * row, row, 1, dim);
    const int64_t real = s < count ? dim : 0;
    for (int64_t d = 0; d < real; ++d) packed[d] = load(x + s * row + d) * factor;
    for (int64_t d = real; d < width; ++d) packed[d] = 0.0f;
  }
}

// Packs the transpose of x in panels of kPanel positions: [padded(count) / kPanel][dim][kPanel].
template <class T>
void pack_panels(const T* x, int64_t row, int64_t count, int64_t dim, float* packed) {
  for (int64_t first = 0; first < padded(count); first += kPanel, packed += dim * kPanel)
    for (int64_t s = 0; s < kPanel; ++s) {
      if (first + s + kAhead < count) prefetch_rows<false>(x + (first + s + kAhead) * row, row, 1, dim);
      if (first + s < count)
        for (int64_t d = 0; d < dim; ++d) packed[d * kPanel + s] = load(x + (first + s) * row + d);
      else
        for (int64_t d = 0; d < dim; ++d) packed[d * kPanel + s] = 0.0f;
    }
}

// scores [kQueryBlock][width] = rows [kQueryBlock][rows_width] times the panels.
void multiply_panels(const Block& block, const float* rows, int64_t rows_width, const float* panels, float* scores,
                     int64_t width) {
  const int64_t dim = block.shape.dim;
  for (int64_t key = block.first_key; key < block.last_key(); key += kPanel)
    for (int64_t t = 0; t < kQueryBlock; t += kTileRows)
      if (key < block.end_of_tile(t))
        tile<false>(dim, rows + t * rows_width, rows_width, 1, panels + key * dim, kPanel, scores + t * width + key,
                    width);
}

// result [kQueryBlock][dim_width] += weights [kQueryBlock][width] times rows [keys][dim_width].
void multiply_rows(const Block& block, const float* weights, int64_t width, const float* rows, float* result,
                   int64_t dim_width) {
  for (int64_t t = 0; t < kQueryBlock; t += kTileRows)
    for (int64_t d = 0; d < dim_width; d += kPanel)
      tile<true>(block.end_of_tile(t) - block.first_key, weights + t * width + block.first_key, width, 1,
                 rows + block.first_key * dim_width + d, dim_width, result + t * dim_width + d, dim_width);
}

// sums [keys][dim_width] += the transpose of weights [kQueryBlock][width] times rows [kQueryBlock][dim_width].
void add_transposed(const Block& block, const float* weights, int64_t width, const float* rows, float* sums,
                    int64_t dim_width) {
  int64_t skip = 0;  // query tiles that end before this key have no scores for it
  for (int64_t key = block.first_key; key < block.last_key(); key += kTileRows) {
    while (block.end_of_tile(skip) <= key) skip += kTileRows;
    for (int64_t d = 0; d < dim_width; d += kPanel)
      tile<true>(kQueryBlock - skip, weights + skip * width + key, 1, width, rows + skip * dim_width + d, dim_width,
                 sums + key * dim_width + d, dim_width);
  }
}

// Bytes of `vectors` vectors of a key, and of its scores.
constexpr int64_t bytes_per_key(int64_t vectors, int64_t dim_width) {
  return (vectors * dim_width + 2 * kQueryBlock) * static_cast<int64_t>(sizeof(float));
}

template <class T>
void forward(const AttentionShape& shape, const T* query, const T* key, const T* value, T* output, float* log_sum_exp,
             float* scratch) {
  const int64_t rows = padded(shape.keys), width = row_width(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  float* key_panels = scratch;
  float* values = key_panels + rows * dim_width;
  float* scores = values + rows * dim_width;
  float* queries = scores + kQueryBlock * width;
  float* mixed = queries + kQueryBlock * dim_width;
  auto* softmaxes = reinterpret_cast<RunningSoftmax*>(mixed + padded(shape.seq) * dim_width);
  pack_panels(key, shape.key_row, shape.keys, dim, key_panels);
  pack_rows(value, shape.value_row, shape.keys, dim, rows, dim_width, 1.0f, values);

  const int64_t span = find_span(rows, bytes_per_key(2, dim_width));
  for (int64_t head = 0; head < shape.group; ++head) {
    zero(mixed, 0, padded(shape.seq) * dim_width);
    for (int64_t s = 0; s < shape.seq; ++s) softmaxes[s] = {-__builtin_inff(), 0.0f};
    for (int64_t first = 0; first < shape.keys; first += span)
      for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
        const Block block(shape, start, {first, smaller(first + span, shape.keys)});
        if (block.last_key() == block.first_key) continue;
        const int64_t count = smaller(shape.seq - start, kQueryBlock);
        pack_rows(query + head * shape.query.head + start * shape.query.row, shape.query.row, count, dim, kQueryBlock,
                  dim_width, shape.scale, queries);
        const int64_t next = start + kQueryBlock < shape.seq ? start + kQueryBlock : start;
        prefetch_rows<false>(query + head * shape.query.head + next * shape.query.row, shape.query.row,
                             smaller(shape.seq - next, kQueryBlock), dim);
        multiply_panels(block, queries, dim_width, key_panels, scores, width);
        for (int64_t i = 0; i < kQueryBlock; ++i) {
          float* row = scores + i * width;
          if (i >= count) {
            zero(row, block.first_key, block.end_of_tile(i));
            continue;
          }
          if (shape.biases) add_biases(block, head, i, row);
          const float factor = exponentiate(block, i, row, softmaxes[start + i]);
          if (shape.drop) drop(block, head, i, row, [](int64_t, float) {});
          if (factor != 1.0f)
            for (int64_t d = 0; d < dim_width; ++d) mixed[(start + i) * dim_width + d] *= factor;
        }
        multiply_rows(block, scores, width, values, mixed + start * dim_width, dim_width);
      }
    for (int64_t s = 0; s < shape.seq; ++s) {
      T* to = output + head * shape.output.head + s * shape.output.row;
      if (s + kAhead < shape.seq) prefetch_rows<true>(to + kAhead * shape.output.row, shape.output.row, 1, dim);
      const auto [largest, sum] = softmaxes[s];
      const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
      for (int64_t d = 0; d < dim; ++d) store(to + d, mixed[s * dim_width + d] * factor);
      // Infinity makes the backward's weights 0 too.
      log_sum_exp[head * shape.seq + s] =
          sum == 0.0f ? __builtin_inff() : (shape.biases ? 0.0f : largest) + __builtin_logf(sum);
    }
  }
}

template <class T>
void backward(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* output, const T* grad,
              const float* log_sum_exp, T* dquery, T* dkey, T* dvalue, int64_t dkey_row, float* dbiases,
              float* scratch) {
  const int64_t rows = padded(shape.keys), width = row_width(shape.keys), dim = shape.dim, dim_width = padded_dim(dim);
  float* key_panels = scratch;
  float* value_panels = key_panels + rows * dim_width;
  float* keys = value_panels + rows * dim_width;
  float* dkeys = keys + rows * dim_width;
  float* dvalues = dkeys + rows * dim_width;
  float* weights = dvalues + rows * dim_width;
  float* dweights = weights + kQueryBlock * width;
  float* queries = dweights + kQueryBlock * width;
  float* upstream = queries + kQueryBlock * dim_width;
  float* dqueries = upstream + kQueryBlock * dim_width;
  pack_panels(key, shape.key_row, shape.keys, dim, key_panels);
  pack_panels(value, shape.value_row, shape.keys, dim, value_panels);
  pack_rows(key, shape.key_row, shape.keys, dim, rows, dim_width, 1.0f, keys);
  zero(dkeys, 0, 2 * rows * dim_width);

  // The softmax of biased scores needs all of a row's scores.
  const int64_t span = shape.biases ? rows : find_span(rows, bytes_per_key(5, dim_width));
  for (int64_t head = 0; head < shape.group; ++head) {
    zero(dqueries, 0, padded(shape.seq) * dim_width);
    for (int64_t first = 0; first < shape.keys; first += span)
      for (int64_t start = 0; start < shape.seq; start += kQueryBlock) {
        const Block block(shape, start, {first, smaller(first + span, shape.keys)});
        if (block.last_key() == block.first_key) continue;
        const int64_t count = smaller(shape.seq - start, kQueryBlock);
        const T* upstream_at = grad + head * shape.output.head + start * shape.output.row;
        const T* output_at = output + head * shape.output.head + start * shape.output.row;
        pack_rows(query + head * shape.query.head + start * shape.query.row, shape.query.row, count, dim, kQueryBlock,
                  dim_width, shape.scale, queries);
        pack_rows(upstream_at, shape.output.row, count, dim, kQueryBlock, dim_width, 1.0f, upstream);
        const int64_t next = start + kQueryBlock < shape.seq ? start + kQueryBlock : start;
        const int64_t next_count = smaller(shape.seq - next, kQueryBlock);
        prefetch_rows<false>(query + head * shape.query.head + next * shape.query.row, shape.query.row, next_count,
                             dim);
        const int64_t next_offset = head * shape.output.head + next * shape.output.row;
        prefetch_rows<false>(grad + next_offset, shape.output.row, next_count, dim);
        prefetch_rows<false>(output + next_offset, shape.output.row, next_count, dim);
        multiply_panels(block, queries, dim_width, key_panels, weights, width);
        multiply_panels(block, upstream, dim_width, value_panels, dweights, width);
        for (int64_t i = 0; i < kQueryBlock; ++i) {
          float *const weight = weights + i * width, *const dweight = dweights + i * width;
          if (i < count) {
            // The backward of the softmax needs the dot product of the output and its gradient.
            const float dot = compute_dot(upstream_at + i * shape.output.row, output_at + i * shape.output.row, dim);
            differentiate_row(block, head, i, weight, dweight, dot, log_sum_exp[head * shape.seq + start + i], dbiases);
          } else {
            zero(weight, block.first_key, block.end_of_tile(i));
            zero(dweight, block.first_key, block.end_of_tile(i));
          }
        }
        multiply_rows(block, dweights, width, keys, dqueries + start * dim_width, dim_width);
        add_transposed(block, weights, width, upstream, dvalues, dim_width);
        add_transposed(block, dweights, width, queries, dkeys, dim_width);
      }
    for (int64_t s = 0; s < shape.seq; ++s) {
      T* to = dquery + head * shape.output.head + s * shape.output.row;
      if (s + kAhead < shape.seq) prefetch_rows<true>(to + kAhead * shape.output.row, shape.output.row, 1, dim);
      for (int64_t d = 0; d < dim; ++d) store(to + d, dqueries[s * dim_width + d] * shape.scale);
    }
  }
  for (int64_t s = 0; s < shape.keys; ++s) {
    if (s + kAhead < shape.keys) {
      prefetch_rows<true>(dkey + (s + kAhead) * dkey_row, dkey_row, 1, dim);
      prefetch_rows<true>(dvalue + (s + kAhead) * dkey_row, dkey_row, 1, dim);
    }
    for (int64_t d = 0; d < dim; ++d) {
      store(dkey + s * dkey_row + d, dkeys[s * dim_width + d]);
      store(dvalue + s * dkey_row + d, dvalues[s * dim_width + d]);
    }
  }
}

}  // namespace

extern const AttentionKernels<float> MODULAR_NAME(float_attention, MODULAR_LEVEL);
extern const AttentionKernels<Bf16> MODULAR_NAME(bf16_attention, MODULAR_LEVEL);
const AttentionKernels<float> MODULAR_NAME(float_attention, MODULAR_LEVEL) = {forward<float>, backward<float>};
const AttentionKernels<Bf16> MODULAR_NAME(bf16_attention, MODULAR_LEVEL) = {forward<Bf16>, backward<Bf16>};

}  // namespace modular::cpu
