// The first stage: one translation unit of all asked specs over a cached precompiled prelude. The same compiler then
// reads the flattened texts, so that Clang reports what flattening breaks.
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
  /// After each spec but the last, as long as there was no error, with how many were read: whether to continue with
  /// flatten, without the others. None: never.
  std::function<bool(clang::CompilerInstance&, Parsed&, size_t specs)> stops_at = {};
  /// After the specs and before any flattened text: returns the flattened texts to parse, in order. None: parsing ends
  /// here.
  std::function<std::vector<std::string>(clang::CompilerInstance&, Parsed&)> flatten;
  /// After the flattened texts; `files` are their indices in the table, in order.
  std::function<void(clang::CompilerInstance&, Parsed&, const std::vector<uint32_t>& files)> finish;
};

/// Parses the specs at `spec_paths` (relative to the root or the shipped tree, as an #include names them).
Parsed parse(const ParseOptions& options, const std::vector<std::string>& spec_paths, const ParseSteps& steps);

}  // namespace modgen
