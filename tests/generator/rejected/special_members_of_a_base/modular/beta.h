// Members of a base for which C++ treats the base's part of an object separately.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPoint : alpha::AlphaPoint {
  double y = 2.0;
};

struct BetaCopied : alpha::AlphaCopied {
  double y = 2.0;
};

struct BetaConstructed : alpha::AlphaCopied {
  explicit BetaConstructed(double first) { x = first; }
};

struct BetaOrdered : alpha::AlphaOrdered {
  double y = 2.0;
  bool operator==(const BetaOrdered& other) const = default;
};

class BetaLoggedImpl : public alpha::AlphaLoggedImpl {
 public:
  using AlphaLoggedImpl::AlphaLoggedImpl;
  ~BetaLoggedImpl() override { log += "derived"; }
};
TORCH_MODULE(BetaLogged);

struct BetaCounted : alpha::AlphaCounted {
  explicit BetaCounted(int64_t number) { TORCH_CHECK(number > 0, "a negative number"); }
};

struct BetaKept : alpha::AlphaKept {
  std::string moved = "moved";
};

inline std::string beta_left(BetaKept kept) {
  const BetaKept other = std::move(kept);
  return kept.moved;
}

struct BetaSame : alpha::AlphaSame {
  explicit BetaSame(int64_t number) : length(number) {}
  int64_t length;
};

struct BetaOther : alpha::AlphaPoint {
  BetaOther(const alpha::AlphaPoint& point) : AlphaPoint(point) {}
};

}  // namespace modular::beta
