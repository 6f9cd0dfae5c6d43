// Libraries make objects for inherited code, whose classes have other constructors here.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPart : alpha::AlphaPart {
  explicit BetaPart(int64_t given) { n = given; }
};

struct BetaNumber : alpha::AlphaNumber {
  using AlphaNumber::AlphaNumber;
  explicit BetaNumber(int percent) : AlphaNumber(percent * 100) {}
};

struct BetaBox : alpha::AlphaBox {};

struct BetaPair : alpha::AlphaPair {};

}  // namespace modular::beta
