// Rules that are wrong on purpose, one at a time in the place of the true one: the fuzzer has to find each.
#pragma once

#include <string_view>
#include <vector>

namespace modgen {

struct WrongRule {
  std::string_view name;   // what is wrong
  std::string_view rules;  // whose, in words
};

const std::vector<WrongRule>& wrong_rules();

/// From now on find_rule gives that wrong rule. Throws where there is none of that name.
void plant(std::string_view name);

}  // namespace modgen
