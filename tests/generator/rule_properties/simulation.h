// Runs a drawn operation on simulated ranks and holds it to what its rule says.
#pragma once

#include <string>
#include <vector>

#include "tests/generator/rule_properties/application.h"

namespace modgen::rule_properties {

enum class Verdict {
  rejected,  // by the rule
  invalid,   // one process cannot compute it: a bad draw
  right,     // what the rule says holds
  wrong,
};

struct Judgement {
  Verdict verdict = Verdict::right;
  bool all_full = false;   // operands and result are the same on every rank
  std::string message;     // why it is wrong, rejected or invalid
  Call call = Call::none;  // what is woven in the operation's place
};

/// Applies the rule `name` to `application`, and where it accepts runs it on one process and on 2 and 4 ranks, forward
/// and backward, within 1e-9.
Judgement judge(const std::string& name, const Application& application);

/// The operation in words, for messages.
std::string describe(const std::string& name, const Application& application);

}  // namespace modgen::rule_properties
