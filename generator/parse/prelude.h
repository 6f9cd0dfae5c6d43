// The precompiled prelude: the contract and what it includes, read once for all runs.
#pragma once

#include <string>

#include "generator/source/parsed.h"

namespace modgen {

/// The path of the precompiled prelude. It is built if the cache does not hold it, or holds a damaged one; where the
/// cache cannot be written, a folder for temporary files takes its place, which is a notice. What it was made of, and
/// which include candidates did not exist, is added to `parsed`. Throws std::runtime_error where it does not compile.
std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed);

}  // namespace modgen
