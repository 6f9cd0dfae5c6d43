// A template of the base or the library names a member of what it is given as one of the base, or a base's method or
// the library hands an object to code that names one. C++ calls what the base declares.
#pragma once

#include <functional>
#include <iterator>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCast : alpha::AlphaCast {
  int64_t value() const { return 2; }
  int64_t sum() const { return alpha::read(*this) + alpha::read(static_cast<const alpha::AlphaCast&>(*this)); }
};

struct BetaNamed : alpha::AlphaNamed {
  int64_t value() const { return 2; }
  int64_t sum() const { return alpha::read<alpha::AlphaNamed>(*this); }
};

struct BetaResult : alpha::AlphaResult {
  int64_t value() const { return 2; }
  int64_t sum() const { return alpha::read(itself()); }
};

struct BetaTwice : alpha::AlphaTwice {
  int64_t value() const { return 2; }
  int64_t sum() const { return alpha::read_twice(static_cast<const alpha::AlphaTwice&>(*this)); }
};

struct BetaOfMember : alpha::AlphaOfMember {
  int64_t value() const { return 2; }
  int64_t sum() const { return read(static_cast<const alpha::AlphaOfMember&>(*this)); }
};

struct BetaCalledBack : alpha::AlphaCalledBack {
  int64_t value() const { return 2; }
  int64_t sum() const {
    return with([](const auto& box) { return box.value(); });
  }
};

struct BetaFunction : alpha::AlphaFunction {
  int64_t value() const { return 2; }
  int64_t sum() const {
    return with([](const auto& box) { return box.value(); }) + with([](const alpha::AlphaFunction& box) {
             const auto inner = [&](const auto& one) { return one.value(); };
             return inner(box);
           });
  }
};

struct BetaPointer : alpha::AlphaPointer {
  static int64_t read(const alpha::AlphaPointer& box) { return box.value(); }
  int64_t value() const { return 2; }
  int64_t sum() const { return with(&read); }
};

struct BetaSized : alpha::AlphaSized {
  int64_t size() const { return 2; }
  int64_t sum() const { return std::size(static_cast<const alpha::AlphaSized&>(*this)); }
};

struct BetaTaken : alpha::AlphaTaken {
  int64_t value() const { return 2; }
  int64_t sum() const {
    const std::function<int64_t(const BetaTaken&)> read = [](const alpha::AlphaTaken& box) { return box.value(); };
    return read(*this);
  }
};

struct BetaSeen : alpha::AlphaSeen {
  int64_t value() const { return 2; }
};
struct BetaWatcher : alpha::AlphaWatcher {
  void see(const alpha::AlphaSeen& seen) override { sum += seen.value() * 10; }
};

}  // namespace modular::beta
