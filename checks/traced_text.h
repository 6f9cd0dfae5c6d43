// The text of a generated file, prepared for its execution.
#pragma once

#include <string>
#include <vector>

namespace modgen {

/// The text of a generated file with `modular::execute::traced(LINE, …)` around the initial value of each variable that
/// is declared as a tensor or with auto, around values assigned to variables, and around returned values. Lines stay
/// where they are. It knows the layout that modgen prints, not C++: the result may fail to compile.
std::string traced_text(const std::string& text);

/// The string literals that the file compares with, by ==, !=, starts_with() or ends_with(), without repetition: values
/// of config fields that it treats differently.
std::vector<std::string> compared_strings(const std::string& text);

}  // namespace modgen
