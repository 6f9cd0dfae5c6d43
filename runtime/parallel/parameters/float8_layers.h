// Selects the linear layers that compute in float8.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/module.h"

namespace modular {

/// Returns the paths of the linear layers of `root` that match one of `patterns` (parameter_table.h) and whose two
/// sizes are multiples of kFloat8Multiple.
std::vector<std::string> float8_layers(const nn::Module& root, const std::vector<std::string>& patterns);

/// Makes these layers compute in float8.
void multiply_in_float8(nn::Module& root, const std::vector<std::string>& patterns);

}  // namespace modular
