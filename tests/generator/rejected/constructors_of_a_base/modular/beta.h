// Effects that a base's constructor has once, and flattened code would do per class, at another time or with another value.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaCountImpl : public alpha::AlphaCountImpl {};
TORCH_MODULE(BetaCount);

class BetaOtherImpl : public alpha::AlphaCountImpl {};
TORCH_MODULE(BetaOther);

class BetaNumberImpl : public alpha::AlphaNumberImpl {
 public:
  BetaNumberImpl() : AlphaNumberImpl() { number *= 2; }
};
TORCH_MODULE(BetaNumber);

class BetaAnyImpl : public alpha::AlphaAnyImpl {
 public:
  BetaAnyImpl() : AlphaAnyImpl(3) {}
};
TORCH_MODULE(BetaAny);

class BetaSureImpl : public alpha::AlphaSureImpl {
 public:
  explicit BetaSureImpl(const std::vector<int64_t>& values) : AlphaSureImpl(values) {}
};
TORCH_MODULE(BetaSure);

class BetaListImpl : public alpha::AlphaListImpl {
 public:
  BetaListImpl() : AlphaListImpl({1, 2, 3}) {}
};
TORCH_MODULE(BetaList);

class BetaCheckedImpl : public alpha::AlphaCheckedImpl {
 public:
  explicit BetaCheckedImpl(const std::string& text) : AlphaCheckedImpl(text), bits(text) {}
  const std::bitset<8> bits;
};
TORCH_MODULE(BetaChecked);

class BetaPassedImpl : public alpha::AlphaPassedImpl {
 public:
  explicit BetaPassedImpl(int64_t start) : AlphaPassedImpl(start, start) {}
};
TORCH_MODULE(BetaPassed);

class BetaEarlyImpl : public alpha::AlphaNumberImpl {
 public:
  BetaEarlyImpl() : double_size(size * 2), AlphaNumberImpl(), size(1) {}
  int64_t size;
  int64_t double_size;
};
TORCH_MODULE(BetaEarly);

inline int64_t total(int64_t one) {
  namespace base = alpha;
  return one + 1;
}

class BetaTotalImpl : public Module {
 public:
  int64_t sum() { return total(1); }
};
TORCH_MODULE(BetaTotal);

}  // namespace modular::beta
