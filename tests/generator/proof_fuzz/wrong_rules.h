// Intentionally wrong rules, each of which replaces the real one: the fuzzer has to find all of them.
#pragma once

#include <string_view>
#include <vector>

namespace modgen {

struct WrongRule {
  std::string_view name;   // name of the mistake
  std::string_view rules;  // description
};

const std::vector<WrongRule>& wrong_rules();

/// Makes find_rule return the wrong rule with that name from now on. Throws if there is none.
void plant(std::string_view name);

}  // namespace modgen
