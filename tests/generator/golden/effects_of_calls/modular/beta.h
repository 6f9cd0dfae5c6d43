// A member whose initializer reads what a base's body changes is set after that body.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaByOperator : alpha::AlphaByOperator {
  BetaByOperator() : AlphaByOperator(), mine(log.total) {}
  int64_t mine;
};

struct BetaBySubscript : alpha::AlphaBySubscript {
  BetaBySubscript() : AlphaBySubscript(), mine(log.total) {}
  int64_t mine;
};

struct BetaByConversion : alpha::AlphaByConversion {
  BetaByConversion() : AlphaByConversion(), mine(log.total) {}
  int64_t mine;
};

struct BetaByName : alpha::AlphaByName {
  BetaByName() : AlphaByName(), mine(ids.get()) {}
  int64_t mine;
};

struct BetaByMutable : alpha::AlphaByMutable {
  BetaByMutable() : AlphaByMutable(), mine(ids.take()) {}
  int64_t mine;
};

struct BetaByInsertion : alpha::AlphaByInsertion {
  BetaByInsertion() : AlphaByInsertion(), mine(static_cast<int64_t>(counts.size())) {}
  int64_t mine;
};

struct BetaByInvocation : alpha::AlphaByInvocation {
  BetaByInvocation() : AlphaByInvocation(), mine(first) {}
  int64_t mine;
};

struct BetaByFunction : alpha::AlphaByFunction {
  BetaByFunction() : AlphaByFunction(), mine(alpha::alpha_seen) {}
  int64_t mine;
};

struct BetaByReference : alpha::AlphaByReference {
  BetaByReference() : AlphaByReference(), mine(first) {}
  int64_t mine;
};

struct BetaByRange : alpha::AlphaByRange {
  BetaByRange() : AlphaByRange(), mine(values[1]) {}
  int64_t mine;
};

struct BetaByElement : alpha::AlphaByElement {
  BetaByElement() : AlphaByElement(), mine(alpha::alpha_made) {}
  int64_t mine;
};

struct BetaByTemporary : alpha::AlphaByTemporary {
  BetaByTemporary() : AlphaByTemporary(), mine(alpha::alpha_made) {}
  int64_t mine;
};

struct BetaByEnvironment : alpha::AlphaByEnvironment {
  BetaByEnvironment() : AlphaByEnvironment(), mine(std::getenv("MODULAR_GOLDEN") ? 1 : 0) {}
  int64_t mine;
};

struct BetaByUnion : alpha::AlphaByUnion {
  BetaByUnion() : AlphaByUnion(), mine(same.number) {}
  int64_t mine;
};

struct BetaByAssignment : alpha::AlphaByAssignment {
  explicit BetaByAssignment(int64_t number) : AlphaByAssignment(number) { peak = alpha::AlphaPeak(2); }
};

}  // namespace modular::beta
