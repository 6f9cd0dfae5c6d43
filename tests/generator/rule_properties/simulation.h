// Runs a sampled operation on simulated ranks and checks the claims of its rule.
#pragma once

#include <string>
#include <vector>

#include "tests/generator/rule_properties/application.h"

namespace modgen::rule_properties {

enum class Verdict {
  rejected,  // the rule rejects it
  invalid,   // a single process cannot compute it: a bad sample
  right,     // the rule's claims hold
  wrong,
};

struct Judgement {
  Verdict verdict = Verdict::right;
  bool all_full = false;   // operands and result are the same on every rank
  std::string message;     // why it is wrong, rejected or invalid
  Call call = Call::none;  // the call that replaces the operation
};

/// Applies the rule `name` to `application`. If it accepts, runs the operation forward and backward on a single process
/// and on 2 and 4 ranks, and compares the results within 1e-9.
Judgement judge(const std::string& name, const Application& application);

/// Describes the operation for messages.
std::string describe(const std::string& name, const Application& application);

}  // namespace modgen::rule_properties
