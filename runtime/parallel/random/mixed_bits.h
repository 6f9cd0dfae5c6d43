// A 64-bit hash for counter-based RNG keys.
#pragma once

#include <cstdint>

namespace modular {

/// Mixes every input bit into all output bits (Steele et al., SplitMix).
inline uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace modular
