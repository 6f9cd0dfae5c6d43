// Matrix tiles for AMX, the tile unit of Intel CPUs: packing and accumulation. Included only by files that are compiled
// for CPUs with AMX, so everything has internal linkage (see kernels.cc).
#pragma once

#include <immintrin.h>

#include "runtime/ops/cpu/amx_kernel.h"

namespace modular::cpu {
namespace {

// A tile has 16 rows of 64 bytes: 16 pairs of bfloat16 or 16 float32 each.
constexpr int64_t kTile = 16, kTileBytes = 1024, kTileDepth = 32;

// Mask of the first `count` elements of a float32 vector.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kTile ? 0xffff : (1 << count) - 1);
}

// Number of bfloat16 parts per element.
template <class T>
constexpr int kParts = sizeof(T) == 4 ? 3 : 1;

// AMX loads and stores are opaque to the compiler.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Location of a tile's elements: 16 lines, each in two halves of 16 elements. Lines are the operand's rows if rows are
// contiguous along the depth, else they are depths. `ahead` is the offset from a line to the same line two tiles later.
template <class T>
struct TileSource {
  const T* data;
  int64_t line, half, ahead;
};

// The rows of a tile are far apart in memory, a pattern that hardware prefetchers do not detect.
inline void prefetch(const void* at) { __builtin_prefetch(at, 0, 3); }

// Splits two float32 vectors into three bfloat16 parts each, whose sum is exact. The parts of `low` and `high` become
// the low and high halves of pairs. Rounding half up instead of to even also keeps the remainder exact. Values that are
// not finite set `check` to NaN.
inline void split(__m512 low, __m512 high, __m512i (&parts)[3], __m512& check) {
  const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const auto to_part = [&](__m512 value) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(value), half), upper));
  };
  const auto pair = [&](__m512 first, __m512 second) {  // first | (second & upper)
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(_mm512_castps_si512(first), 16), _mm512_castps_si512(second),
                                     upper, 0xf8);
  };
  const __m512 low0 = to_part(low), high0 = to_part(high);
  check = _mm512_fmadd_ps(low0, _mm512_setzero_ps(), check);
  check = _mm512_fmadd_ps(high0, _mm512_setzero_ps(), check);
  const __m512 low_rest = _mm512_sub_ps(low, low0), high_rest = _mm512_sub_ps(high, high0);
  const __m512 low1 = to_part(low_rest), high1 = to_part(high_rest);
  parts[0] = pair(low0, high0);
  parts[1] = pair(low1, high1);
  parts[2] = pair(_mm512_sub_ps(low_rest, low1), _mm512_sub_ps(high_rest, high1));
}

// Transposes 16 lines: element (i, j) becomes element (j, i).
inline void transpose(const float* from, int64_t line, __m512 (&to)[kTile]) {
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    __m512 quads[4];  // of lines i, i + 4, i + 8, i + 12
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* const at = from + i * line + 4 * q;
      __m512 lines = _mm512_castps128_ps512(_mm_loadu_ps(at));
      lines = _mm512_mask_broadcast_f32x4(lines, 0x00f0, _mm_loadu_ps(at + 4 * line));
      lines = _mm512_mask_broadcast_f32x4(lines, 0x0f00, _mm_loadu_ps(at + 8 * line));
      quads[i] = _mm512_mask_broadcast_f32x4(lines, 0xf000, _mm_loadu_ps(at + 12 * line));
    }
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(quads[0], quads[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(quads[2], quads[3]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(quads[0], quads[1]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(quads[2], quads[3]));
    to[4 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    to[4 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    to[4 * q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    to[4 * q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }
}

// Writes one tile per part, `part_stride` bytes apart. A pair has one element of each half.
template <bool transposed>
bool write_tile(const TileSource<float>& from, char* to, int64_t part_stride) {
  __m512 check = _mm512_setzero_ps(), low[kTile], high[kTile];
  if constexpr (transposed) {
    for (int64_t i = 0; i < kTile; ++i) {
      prefetch(from.data + i * from.line + from.ahead);
      prefetch(from.data + i * from.line + from.half + from.ahead);
    }
    transpose(from.data, from.line, low);
    transpose(from.data + from.half, from.line, high);
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < kTile; ++i) {
    __m512i parts[3];
    if constexpr (transposed) {
      split(low[i], high[i], parts, check);
    } else {
      const float* const at = from.data + i * from.line;
      prefetch(at + from.ahead);
      prefetch(at + from.half + from.ahead);
      split(_mm512_loadu_ps(at), _mm512_loadu_ps(at + from.half), parts, check);
    }
    for (int part = 0; part < 3; ++part) _mm512_store_si512(to + part * part_stride + i * 64, parts[part]);
  }
  return _mm512_cmp_ps_mask(check, check, _CMP_UNORD_Q) == 0;
}

// For bfloat16, a pair has two elements that are adjacent along the depth.
template <bool transposed>
bool write_tile(const TileSource<Bf16>& from, char* to, int64_t) {
  const bool along = from.half == kTile;
  alignas(64) __m512i pairs[kTile];
  for (int64_t i = 0; i < kTile; ++i) {
    const Bf16* const at = from.data + (along ? i : 2 * i) * from.line;
    prefetch(at + from.ahead);
    if (along) {
      pairs[i] = _mm512_loadu_si512(at);
    } else {
      prefetch(at + from.line + from.ahead);
      const auto half = [](const Bf16* values) {
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)));
      };
      pairs[i] = _mm512_or_si512(half(at), _mm512_slli_epi32(half(at + from.line), 16));
    }
  }
  __m512 rows[kTile];
  if constexpr (transposed) transpose(reinterpret_cast<const float*>(pairs), kTile, rows);
  for (int64_t i = 0; i < kTile; ++i)
    _mm512_store_si512(to + i * 64, transposed ? _mm512_castps_si512(rows[i]) : pairs[i]);
  return true;
}

// Packs one tile per part from rows `first` … and depths `depth` … of an operand, 0 beyond `rows` and `depths`. With
// `by_pair`, the tile's rows are pairs, the layout that AMX requires for the right operand.
template <bool by_pair, class T>
bool pack_tile(const MatrixOperand<T>& operand, int64_t first, int64_t rows, int64_t depth, int64_t depths, char* to,
               int64_t part_stride) {
  const bool along = operand.step == 1;
  const T* const data = operand.data + first * operand.row + depth * operand.step;
  const int64_t stride = along ? operand.row : operand.step;
  TileSource<T> from = {data, stride, along ? kTile : kTile * stride, along ? 2 * kTileDepth : kTileDepth * stride};
  alignas(64) T edge[kTile * kTileDepth];
  if (rows - first < kTile || depths - depth < kTileDepth) {
    const int64_t row_count = rows - first < kTile ? rows - first : kTile;
    const int64_t depth_count = depths - depth < kTileDepth ? depths - depth : kTileDepth;
    const int64_t lines = along ? row_count : depth_count, length = along ? depth_count : row_count;
    const int64_t edge_line = along ? kTileDepth : kTile;
    for (T& element : edge) element = T{};
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < length; ++j) edge[i * edge_line + j] = data[i * stride + j];
    from = {edge, edge_line, along ? kTile : kTile * edge_line, 0};
  }
  return along == by_pair ? write_tile<true>(from, to, part_stride) : write_tile<false>(from, to, part_stride);
}

// Packs panels of kAmxPanel rows: [depth tile][part][two tiles of rows].
template <bool by_pair, class T>
bool pack_panel(const MatrixOperand<T>& from, int64_t first, int64_t rows, int64_t depth, int64_t depths, char* to) {
  bool finite = true;
  for (; depth < depths; depth += kTileDepth, to += 2 * kParts<T> * kTileBytes)
    for (int64_t half = 0; half < 2; ++half) {
      char* const tile = to + half * kTileBytes;
      if (first + half * kTile < rows) {
        finite &= pack_tile<by_pair>(from, first + half * kTile, rows, depth, depths, tile, 2 * kTileBytes);
      } else {
        for (int part = 0; part < kParts<T>; ++part)
          for (int64_t i = 0; i < kTile; ++i)
            _mm512_store_si512(tile + part * 2 * kTileBytes + i * 64, _mm512_setzero_si512());
      }
    }
  return finite;
}

// Tiles 0 … 3 accumulate, 4 and 5 hold rows of the left operand, 6 and 7 rows of the right operand.
inline void load_left(const char* at) {
  _tile_loadd(4, at, 64);
  _tile_loadd(5, at + kTileBytes, 64);
}
inline void load_right(const char* at) {
  _tile_loadd(6, at, 64);
  _tile_loadd(7, at + kTileBytes, 64);
}
inline void add_matmuls() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

inline void load_sums(const float* at, int64_t row) {
  const int64_t stride = row * 4;
  _tile_loadd(0, at, stride);
  _tile_loadd(1, at + kTile, stride);
  _tile_loadd(2, at + kTile * row, stride);
  _tile_loadd(3, at + kTile * row + kTile, stride);
}
inline void store_sums(float* at, int64_t row) {
  const int64_t stride = row * 4;
  _tile_stored(0, at, stride);
  _tile_stored(1, at + kTile, stride);
  _tile_stored(2, at + kTile * row, stride);
  _tile_stored(3, at + kTile * row + kTile, stride);
}

inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Adds the matmul of two panels to the sums.
inline void add_panels(const Bf16*, const char* left, const char* right, int64_t tiles) {
  for (int64_t i = 0; i < tiles; ++i, left += 2 * kTileBytes, right += 2 * kTileBytes) {
    load_left(left);
    load_right(right);
    add_matmuls();
  }
}

}  // namespace
}  // namespace modular::cpu
