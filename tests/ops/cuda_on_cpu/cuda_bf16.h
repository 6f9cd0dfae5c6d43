// CUDA's bfloat16 on CPUs.
#pragma once

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even. NaN stays NaN.
inline __nv_bfloat16 __float2bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
