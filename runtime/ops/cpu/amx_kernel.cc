#include "runtime/ops/cpu/amx_kernel.h"

#include "runtime/ops/cpu/amx_tiles.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

// Compiled only for CPUs with AMX; see kernels.cc for the restrictions this implies.

namespace {

// For float32, the products of the lesser parts are summed first, so that they are not lost when the sum of the leading
// parts is rounded.
void add_panels(const float*, const char* left_panel, const char* right_panel, int64_t tiles) {
  constexpr int64_t kPart = 2 * kTileBytes, kStep = 3 * kPart;
  const char *left = left_panel, *right = right_panel;
  for (int64_t i = 0; i < tiles; ++i, left += kStep, right += kStep) {
    load_left(left);
    load_right(right + 2 * kPart);
    add_matmuls();  // 0 · 2
    load_right(right + kPart);
    add_matmuls();  // 0 · 1
    load_left(left + kPart);
    add_matmuls();  // 1 · 1
    load_right(right);
    add_matmuls();  // 1 · 0
    load_left(left + 2 * kPart);
    add_matmuls();  // 2 · 0
  }
  left = left_panel, right = right_panel;
  for (int64_t i = 0; i < tiles; ++i, left += kStep, right += kStep) {
    load_left(left);
    load_right(right);
    add_matmuls();  // 0 · 0
  }
}

// A corner of a result, from sums [kAmxPanel][kAmxPanel]; `bias` is null or the bias of its columns.
template <class T>
struct Corner {
  T* at;
  int64_t row, rows, columns;
  const float* bias;
};

inline void write(const float* sums, const Corner<float>& to, bool add) {
  for (int64_t i = 0; i < to.rows; ++i)
    for (int64_t half = 0; half < to.columns; half += kTile) {
      const __mmask16 present = first_lanes(to.columns - half);
      float* const at = to.at + i * to.row + half;
      __m512 sum = _mm512_load_ps(sums + i * kAmxPanel + half);
      if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(present, at));
      if (to.bias) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(present, to.bias + half));
      _mm512_mask_storeu_ps(at, present, sum);
    }
}
inline void write_rows(const float* sums, const Corner<Bf16>& to, int64_t row, int64_t end) {
  const __mmask16 first = first_lanes(to.columns), second = to.columns > kTile ? first_lanes(to.columns - kTile) : 0;
  const __mmask32 present = first | static_cast<__mmask32>(second) << 16;
  for (; row < end; ++row) {
    __m512 low = _mm512_load_ps(sums + row * kAmxPanel), high = _mm512_load_ps(sums + row * kAmxPanel + kTile);
    if (to.bias) {
      low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(first, to.bias));
      high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(second, to.bias + kTile));
    }
    _mm512_mask_storeu_epi16(to.at + row * to.row, present, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}

// Prefetches a corner's memory, one 64-byte line of a row at a time.
template <class T>
inline void prefetch(const Corner<T>& corner) {
  for (int64_t i = 0; i < corner.rows; ++i)
    for (int64_t j = 0; j < corner.columns; j += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(corner.at + i * corner.row + j, 1, 3);
}

// Position of a block in the depth.
struct DepthBlock {
  bool is_first, is_last;
};

// A panel of the left operand: the rows of its tiles are `row` bytes apart, the second half begins `half` bytes after
// the first, and the next tile in depth `step` bytes later.
struct LeftPanel {
  const char* at;
  int64_t row, half, step;
};

inline LeftPanel packed_panel(const char* at) { return {at, 64, kTileBytes, 2 * kTileBytes}; }

// Rows of memory to prefetch, one line of each per step of a GEMM.
struct Ahead {
  const char* at;
  int64_t row, first, last;
};

// Sums of the last pair of panels, which are rounded and written while AMX computes the next.
struct Pending {
  alignas(64) float sums[kAmxPanel * kAmxPanel];
  Corner<Bf16> corner = {};
  int64_t written = 0;

  void write(int64_t count) {
    const int64_t end = written + count < corner.rows ? written + count : corner.rows;
    write_rows(sums, corner, written, end);
    written = end;
  }
};

// Multiplies two panels into a corner. The sums of each depth block begin at zero, which bounds the rounding error of
// deep GEMMs.
inline void multiply_panels(const DepthBlock& block, const char* left, const char* right, int64_t tiles,
                            const Corner<float>& corner) {
  prefetch(corner);
  zero_sums();
  add_panels(corner.at, left, right, tiles);
  if (block.is_first && !corner.bias && corner.rows == kAmxPanel && corner.columns == kAmxPanel)
    return store_sums(corner.at, corner.row);
  alignas(64) float sums[kAmxPanel * kAmxPanel];
  store_sums(sums, kAmxPanel);
  memory_barrier();
  write(sums, corner, !block.is_first);
}
// Between depth blocks, bfloat16 sums stay in a float32 matrix at `kept`; after the last block they are pending.
inline void multiply_panels(const DepthBlock& block, LeftPanel left, const char* right, int64_t tiles,
                            const Corner<Bf16>& corner, float* kept, const Ahead& ahead, Pending& pending) {
  if (block.is_last) prefetch(corner);
  if (block.is_first)
    zero_sums();
  else
    load_sums(kept, kAmxSums);
  const int64_t rows_per_step = (kAmxPanel + tiles - 1) / tiles;
  for (int64_t i = 0; i < tiles; ++i, left.at += left.step, right += 2 * kTileBytes) {
    _tile_loadd(4, left.at, left.row);
    _tile_loadd(5, left.at + left.half, left.row);
    load_right(right);
    add_matmuls();
    pending.write(rows_per_step);
    for (int64_t row = ahead.first; row < ahead.last; ++row) prefetch(ahead.at + row * ahead.row + i * 64);
  }
  if (!block.is_last) return store_sums(kept, kAmxSums);
  store_sums(pending.sums, kAmxPanel);
  memory_barrier();
  pending.corner = corner;
  pending.written = 0;
}

// Size of the packed columns that stay in a core's L2 cache while rows are streamed.
constexpr int64_t kRightBytes = int64_t{5} << 18;
static_assert(kRightBytes / (amx_depth_block<Bf16>() * kAmxPanel * 2) * kAmxPanel == kAmxSums);

// A panel of the left operand whose rows are contiguous along the depth is read in place if it fits into the L1 cache.
constexpr int64_t kPanelInPlace = 32 << 10;

template <class T>
bool multiply(const GemmProblem<T>& problem, const MatrixPart& part, char* scratch) {
  constexpr int64_t kBlock = amx_depth_block<T>(), kPanelBytes = kAmxPanel * 2 * kParts<T>;
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  char *const right_panels = scratch, *const left_panel = scratch + kRightBytes;
  const int64_t deepest = problem.depth < kBlock ? (problem.depth + kTileDepth - 1) / kTileDepth * kTileDepth : kBlock;
  const int64_t columns_at_once = kRightBytes / (deepest * kPanelBytes) * kAmxPanel;
  Pending pending;
  bool finite = true;
  for (int64_t column = part.first_column; column < part.last_column; column += columns_at_once) {
    const int64_t end_column =
        column + columns_at_once < part.last_column ? column + columns_at_once : part.last_column;
    for (int64_t depth = 0; depth < problem.depth; depth += kBlock) {
      const DepthBlock block = {depth == 0, depth + kBlock >= problem.depth};
      const int64_t end = block.is_last ? problem.depth : depth + kBlock;
      const int64_t tiles = (end - depth + kTileDepth - 1) / kTileDepth, panel_bytes = tiles * kTileDepth * kPanelBytes;
      const bool adds_bias = problem.bias && (sizeof(T) == sizeof(float) ? block.is_first : block.is_last);
      for (int64_t j = column; j < end_column; j += kAmxPanel)
        finite &= pack_panel<true>(problem.right, j, problem.columns, depth, end,
                                   right_panels + (j - column) / kAmxPanel * panel_bytes);
      const int64_t corners = (end_column - column + kAmxPanel - 1) / kAmxPanel, row_bytes = problem.left.row * 2;
      const bool in_place = sizeof(T) == sizeof(Bf16) && problem.left.step == 1 && (end - depth) % kTileDepth == 0 &&
                            panel_bytes <= kPanelInPlace;
      for (int64_t i = part.first_row; i < part.last_row; i += kAmxPanel) {
        const auto rows_at = [&](int64_t row) {
          return reinterpret_cast<const char*>(problem.left.data + row * problem.left.row + depth);
        };
        LeftPanel left = {rows_at(i), row_bytes, kTile * row_bytes, 64};
        if (!in_place || problem.rows - i < kAmxPanel) {
          finite &= pack_panel<false>(problem.left, i, problem.rows, depth, end, left_panel);
          left = packed_panel(left_panel);
        }
        const bool prefetches_next = in_place && i + 2 * kAmxPanel <= part.last_row;
        memory_barrier();
        for (int64_t j = column; j < end_column; j += kAmxPanel) {
          const int64_t panel = (j - column) / kAmxPanel;
          const Corner<T> corner = {problem.result + i * problem.result_row + j, problem.result_row,
                                    part.last_row - i < kAmxPanel ? part.last_row - i : kAmxPanel,
                                    end_column - j < kAmxPanel ? end_column - j : kAmxPanel,
                                    adds_bias ? problem.bias + j : nullptr};
          const char* const right = right_panels + panel * panel_bytes;
          if constexpr (sizeof(T) == sizeof(Bf16)) {
            float* const kept = problem.sums ? problem.sums + (i - part.first_row) * kAmxSums + (j - column) : nullptr;
            const Ahead ahead = {rows_at(i + kAmxPanel), row_bytes, panel * kAmxPanel / corners,
                                 prefetches_next ? (panel + 1) * kAmxPanel / corners : 0};
            multiply_panels(block, left, right, tiles, corner, kept, ahead, pending);
          } else {
            multiply_panels(block, left_panel, right, tiles, corner);
          }
        }
      }
    }
  }
  pending.write(kAmxPanel);
  _tile_release();
  return finite;
}

}  // namespace

bool amx_multiply(const GemmProblem<float>& problem, const MatrixPart& part, char* scratch) {
  return multiply(problem, part, scratch);
}
bool amx_multiply(const GemmProblem<Bf16>& problem, const MatrixPart& part, char* scratch) {
  return multiply(problem, part, scratch);
}

// Skinny bfloat16 GEMM on AMX: 16 outputs of the weight form a tile as they are in memory; the features of the rows are
// packed once. Compiled only for CPUs with AMX; see kernels.cc for the restrictions this implies.

extern const SkinnyGemmKernels<Bf16> bf16_skinny_gemm_v4;

namespace {

constexpr int64_t kFewRows = 2;  // with fewer rows the tiles are too empty
static_assert(kSkinnyRows == kTile && kSkinnyStep == kTileDepth);

// Packs pairs of features into tiles: [depth tile][pair][row of x][2].
void pack_rows(const Bf16* x, int64_t x_row, float* packed, int64_t rows, int64_t features) {
  if (rows < kFewRows) return bf16_skinny_gemm_v4.pack(x, x_row, packed, rows, features);
  auto* const pairs = reinterpret_cast<Bf16*>(packed);
  for (int64_t k = 0; k < features; ++k) {
    Bf16* const to = pairs + k / 2 * 2 * kTile + k % 2;
    for (int64_t row = 0; row < kTile; ++row) to[2 * row] = row < rows ? x[row * x_row + k] : Bf16{};
  }
}

// Writes outputs n … n + 16 of all rows from a tile of sums.
void write_outputs(const float* sums, Bf16* y, int64_t y_row, int64_t rows, int64_t outputs) {
  __m512 by_row[kTile];
  transpose(sums, kTile, by_row);
  for (int64_t row = 0; row < rows; ++row)
    _mm256_mask_storeu_epi16(y + row * y_row, first_lanes(outputs),
                             reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(by_row[row])));
}

// Computes 64 outputs and prefetches the weight rows of the next outputs.
void multiply_block(const Bf16* pairs, const Bf16* weight, Bf16* y, int64_t y_row, int64_t rows, int64_t features,
                    int64_t ahead) {
  const int64_t stride = features * 2;
  zero_sums();
  for (int64_t k = 0; k < features; k += kTileDepth) {
    const Bf16* const at = weight + k;
    if (ahead > 0)
      for (int64_t row = 0; row < 4 * kTile; ++row) __builtin_prefetch(at + (ahead + row) * features, 0, 2);
    _tile_loadd(4, pairs + k * kTile, 64);
    _tile_loadd(5, at, stride);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, at + kTile * features, stride);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(7, at + 2 * kTile * features, stride);
    _tile_dpbf16ps(2, 7, 4);
    _tile_loadd(5, at + 3 * kTile * features, stride);
    _tile_dpbf16ps(3, 5, 4);
  }
  alignas(64) float sums[4][kTile * kTile];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  memory_barrier();
  for (int64_t part = 0; part < 4; ++part) write_outputs(sums[part], y + part * kTile, y_row, rows, kTile);
}

// Computes up to 16 outputs.
void multiply_tile(const Bf16* pairs, const Bf16* weight, Bf16* y, int64_t y_row, int64_t rows, int64_t features,
                   int64_t outputs) {
  _tile_zero(0);
  for (int64_t k = 0; k < features; k += kTileDepth) {
    alignas(64) Bf16 edge[kTile * kTileDepth];
    for (int64_t n = 0; n < kTile; ++n)
      _mm512_store_si512(edge + n * kTileDepth,
                         n < outputs ? _mm512_loadu_si512(weight + n * features + k) : _mm512_setzero_si512());
    memory_barrier();
    _tile_loadd(4, pairs + k * kTile, 64);
    _tile_loadd(5, edge, 64);
    _tile_dpbf16ps(0, 5, 4);
    memory_barrier();
  }
  alignas(64) float sums[kTile * kTile];
  _tile_stored(0, sums, 64);
  memory_barrier();
  write_outputs(sums, y, y_row, rows, outputs);
}

void multiply_rows(const float* packed, const Bf16* weight, Bf16* y, int64_t y_row, int64_t rows, int64_t features,
                   int64_t first, int64_t last) {
  if (rows < kFewRows) return bf16_skinny_gemm_v4.multiply(packed, weight, y, y_row, rows, features, first, last);
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  const auto* const pairs = reinterpret_cast<const Bf16*>(packed);
  int64_t n = first;
  for (; n + 4 * kTile <= last; n += 4 * kTile)
    multiply_block(pairs, weight + n * features, y + n, y_row, rows, features, n + 8 * kTile <= last ? 4 * kTile : 0);
  for (; n < last; n += kTile)
    multiply_tile(pairs, weight + n * features, y + n, y_row, rows, features, last - n < kTile ? last - n : kTile);
  _tile_release();
}

}  // namespace

extern const SkinnyGemmKernels<Bf16> bf16_skinny_gemm_amx;
const SkinnyGemmKernels<Bf16> bf16_skinny_gemm_amx = {pack_rows, multiply_rows};

}  // namespace modular::cpu
