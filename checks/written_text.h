// The spec of a family, prepared for its comparison with the generated file.
#pragma once

#include <string>

namespace modgen {

/// A spec whose meaning in C++ is the one that modgen gives it, next to its generated file.
struct WrittenText {
  std::string spec;     // in the namespace modular::written_<family>
  std::string before;   // holders that the spec leaves out
  std::string entries;  // initializers of modular::execute::written_entries, after what they need
};

/// Returns the entries of `generated` whose meaning coincides; `entries` is empty if there are none. They coincide if
/// the family derives from no other one, and no class that the entry reaches redefines what its base's code names. The
/// other entries have modgen's open recursion, which C++ does not have.
WrittenText written_text(const std::string& family, const std::string& spec, const std::string& generated);

}  // namespace modgen
