// `modgen --new`: writes a starting spec for a new family.
#pragma once

#include <string>
#include <vector>

#include "generator/generate.h"

namespace modgen {

struct NewFamily {
  std::string name;    // "my_llama"
  std::string prefix;  // "MyLlama"; empty: derived from the name
};

/// The text of a spec that derives all entries of the first base without any change. `bases` are generated with their
/// models. Throws std::runtime_error for an invalid name.
std::string starting_spec(const NewFamily& family, const std::vector<Output>& bases);

}  // namespace modgen
