// The precompiled prelude: the contract and its includes, compiled once for all runs.
#pragma once

#include <string>

#include "generator/source/parsed.h"

namespace modgen {

/// Returns the path of the precompiled prelude. Builds it if the cache does not have it or has a damaged one. If the
/// cache is not writable, uses a folder for temporary files and adds a notice. Adds the prelude's inputs, and the
/// include candidates that did not exist, to `parsed`. Throws std::runtime_error if it does not compile.
std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed);

}  // namespace modgen
