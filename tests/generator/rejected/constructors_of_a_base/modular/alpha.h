// The base of beta.h.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaCountImpl : public Module {
 public:
  static inline int64_t made = 0;
  AlphaCountImpl() { ++made; }
};
TORCH_MODULE(AlphaCount);

class AlphaNumberImpl : public Module {
 public:
  AlphaNumberImpl() {
    static int64_t last = 0;
    number = ++last;
  }
  int64_t number;
};
TORCH_MODULE(AlphaNumber);

class AlphaAnyImpl : public Module {
 public:
  explicit AlphaAnyImpl(const auto& value) { number = value; }
  int64_t number;
};
TORCH_MODULE(AlphaAny);

class AlphaSureImpl : public Module {
 public:
  explicit AlphaSureImpl(const std::vector<int64_t>& values) noexcept { number = values.at(0); }
  int64_t number;
};
TORCH_MODULE(AlphaSure);

class AlphaListImpl : public Module {
 public:
  explicit AlphaListImpl(const std::vector<int64_t>& values) : number(std::ssize(values)) {}
  int64_t number;
};
TORCH_MODULE(AlphaList);

class AlphaCheckedImpl : public Module {
 public:
  explicit AlphaCheckedImpl(const std::string& text) { TORCH_CHECK(text != "none", "AlphaChecked needs bits"); }
};
TORCH_MODULE(AlphaChecked);

class AlphaPassedImpl : public Module {
 public:
  explicit AlphaPassedImpl(int64_t start, int64_t& next) : next(next += 1), number(start) {}
  int64_t next;
  int64_t number;
};
TORCH_MODULE(AlphaPassed);

}  // namespace modular::alpha
