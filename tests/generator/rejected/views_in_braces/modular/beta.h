// Braces convert an object to the base, too, and some code that C++ adds names members: loops and structured bindings.
#pragma once

#include <functional>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaInArray : alpha::AlphaInArray {
  int64_t value() const { return 2; }
  int64_t read() const {
    const alpha::AlphaInArray* all[] = {this};
    return all[0]->value();
  }
};

struct BetaInRows : alpha::AlphaInRows {
  int64_t value() const { return 2; }
  int64_t read() const {
    const alpha::AlphaInRows* rows[2][1] = {this, {this}};
    int64_t sum = 0;
    for (const auto& row : rows)
      for (const auto* one : row) sum += one->value();
    return sum;
  }
};

struct BetaBound : alpha::AlphaBound {
  int64_t value() const { return 2; }
  int64_t read() const {
    const alpha::AlphaBound& bound{*this};
    return bound.value();
  }
};

struct BetaInMember : alpha::AlphaInMember {
  struct Part {
    const alpha::AlphaInMember* of = nullptr;
    int64_t factor = 1;
  };
  int64_t value() const { return 2; }
  int64_t read() const {
    const Part part{.of = this, .factor = 3};
    return part.of->value() * part.factor;
  }
};

struct BetaInParentheses : alpha::AlphaInParentheses {
  struct Part {
    const alpha::AlphaInParentheses* of;
  };
  int64_t value() const { return 2; }
  int64_t read() const {
    const Part part(this);
    return part.of->value();
  }
};

struct BetaInArgument : alpha::AlphaInArgument {
  static int64_t first(std::initializer_list<const alpha::AlphaInArgument*> all) { return (*all.begin())->value(); }
  int64_t value() const { return 2; }
  int64_t read() const { return first({this}); }
};

struct BetaInVector : alpha::AlphaInVector {
  int64_t value() const { return 2; }
  int64_t read() const {
    const std::vector<const alpha::AlphaInVector*> all{this};
    return all[0]->value();
  }
};

struct BetaWrapped : alpha::AlphaWrapped {
  int64_t value() const { return 2; }
  int64_t read() const {
    const std::vector<std::reference_wrapper<const alpha::AlphaWrapped>> all{*this};
    return std::accumulate(all.begin(), all.end(), int64_t{0},
                           [](int64_t sum, const auto& one) { return sum + one.get().value(); });
  }
};

struct BetaWalked : alpha::AlphaWalked {
  const int64_t* end() const { return begin(); }
  int64_t read() const {
    int64_t sum = 0;
    for (const int64_t one : static_cast<const alpha::AlphaWalked&>(*this)) sum += one;
    return sum;
  }
};

struct BetaBindings : alpha::AlphaBindings {
  int64_t first = 2;
  int64_t read() const {
    const auto& [bound] = static_cast<const alpha::AlphaBindings&>(*this);
    return bound;
  }
};

}  // namespace modular::beta
