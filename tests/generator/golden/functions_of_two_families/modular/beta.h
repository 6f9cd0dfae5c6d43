// The other base of gamma.h.
#pragma once

#include "modular/modular.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

enum class BetaMode : int64_t { kFast = 3 };
inline constexpr int64_t kBetaMost = 4;
inline int64_t scaled(int64_t n) {
  enum { kTimes = static_cast<int64_t>(BetaMode::kFast) };
  return n * kTimes;
}
inline int64_t counted(int64_t n) {
  static int64_t calls = 0;
  return n * ++calls;
}
inline int64_t level = 2;
inline int64_t raised(int64_t n) { return n * level++; }
inline int64_t doubled(int64_t n) { return n * 2; }

struct BetaPart {
  int64_t own() const { return scaled(4) + counted(1) + raised(1) + doubled(1) + kBetaMost; }
};

}  // namespace modular::beta
