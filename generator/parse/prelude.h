// The precompiled prelude: the contract and what it includes, read once for all runs.
#pragma once

#include <string>

#include "generator/source/parsed.h"

namespace modgen {

/// The path of the precompiled prelude, built where the cache does not hold it. What it was made of, and which include
/// candidates did not exist, is added to `parsed`. Throws std::runtime_error where it does not compile.
std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed);

}  // namespace modgen
