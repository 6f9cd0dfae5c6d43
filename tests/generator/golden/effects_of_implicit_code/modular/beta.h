// A member whose initializer reads or changes what a base's body changes is set after that body.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaByBraces : alpha::AlphaByBraces {
  BetaByBraces() : mine(alpha::AlphaTicket{}.id) {}
  int64_t mine;
};

struct BetaByNestedBraces : alpha::AlphaByNestedBraces {
  BetaByNestedBraces() : mine(alpha::AlphaPair{}.first.id) {}
  int64_t mine;
};

struct BetaByLibrary : alpha::AlphaByLibrary {
  BetaByLibrary() : head(std::make_shared<alpha::AlphaParameter>("head")) {}
  std::shared_ptr<alpha::AlphaParameter> head;
};

struct BetaByRange : alpha::AlphaByRange {
  BetaByRange() : mine(alpha::alpha_drawn) {}
  int64_t mine;
};

struct BetaByComparison : alpha::AlphaByComparison {
  BetaByComparison() : mine(alpha::alpha_drawn) {}
  int64_t mine;
};

struct BetaByDefaultedComparison : alpha::AlphaByDefaultedComparison {
  BetaByDefaultedComparison() : mine(alpha::alpha_drawn) {}
  int64_t mine;
};

struct BetaByDestructor : alpha::AlphaByDestructor {
  BetaByDestructor() : mine(alpha::alpha_drawn) {}
  int64_t mine;
};

struct BetaByInheritance : alpha::AlphaByInheritance {
  BetaByInheritance() : mine(alpha::alpha_draw()) {}
  int64_t mine;
};

struct BetaByNumber : alpha::AlphaByNumber {
  explicit BetaByNumber(int64_t rows) : AlphaByNumber(rows), zeros(std::vector<int64_t>(rows)) {}
  std::vector<int64_t> zeros;
};
}  // namespace modular::beta
