// Which linear layers are multiplied in float8.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/module.h"

namespace modular {

/// The paths of the linear layers of `root` that lie in one of `patterns` (parameter_table.h), of both of whose sizes
/// kFloat8Multiple is a divisor.
std::vector<std::string> float8_layers(const nn::Module& root, const std::vector<std::string>& patterns);

/// Has these be multiplied in float8.
void multiply_in_float8(nn::Module& root, const std::vector<std::string>& patterns);

}  // namespace modular
