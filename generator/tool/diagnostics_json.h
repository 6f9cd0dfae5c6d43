// Diagnostics as JSON, which `modgen --diagnostics FILE` writes and modcheck reads.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

std::string to_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace modgen
