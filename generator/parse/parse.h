// The first stage, parse: one translation unit of all requested specs on top of a cached precompiled prelude. The same
// compiler then reads the flattened texts, so that Clang reports errors introduced by flattening.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
}  // namespace clang

namespace modgen {

/// The callbacks of parse.
struct ParseSteps {
  /// Called after each spec but the last, until the first error, with the number of specs read so far. Returns whether
  /// to go straight to flatten, without the remaining specs. If empty, all specs are read.
  std::function<bool(clang::CompilerInstance&, Parsed&, size_t specs)> stops_at = {};
  /// Called after the specs. Returns the flattened texts to parse, in order; parsing ends here if there are none.
  std::function<std::vector<std::string>(clang::CompilerInstance&, Parsed&)> flatten;
  /// Called after the flattened texts; `files` are their indices in the table, in order.
  std::function<void(clang::CompilerInstance&, Parsed&, const std::vector<uint32_t>& files)> finish;
};

/// Parses the specs at `spec_paths` (relative to the root or the shipped tree, as an #include names them).
Parsed parse(const ParseOptions& options, const std::vector<std::string>& spec_paths, const ParseSteps& steps);

}  // namespace modgen
