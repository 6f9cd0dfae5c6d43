// Skinny bfloat16 GEMM on AMX: 16 outputs of the weight form a tile as they are in memory; the features of the rows are
// packed once. Compiled only for CPUs with AMX; see kernels.cc for the restrictions this implies.
#include "runtime/ops/cpu/amx_tiles.h"
#include "runtime/ops/cpu/skinny_gemm_kernel.h"

namespace modular::cpu {

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
