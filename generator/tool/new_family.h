// `modgen --new`: a spec to start from.
#pragma once

#include <string>
#include <vector>

#include "generator/generate.h"

namespace modgen {

struct NewFamily {
  std::string name;    // "my_llama"
  std::string prefix;  // "MyLlama"; empty: made of the name
};

/// The text of a spec that derives all entries of the first base, in which nothing differs yet. `bases` are generated
/// with their models. Throws std::runtime_error where a name cannot be one.
std::string starting_spec(const NewFamily& family, const std::vector<Output>& bases);

}  // namespace modgen
