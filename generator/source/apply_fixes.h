// What the fix-its of diagnostics make of the specs. Nothing is written here.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

struct MendedFile {
  std::string path;  // absolute
  std::string before, after;
};

/// Those of `diagnostics` that have a fix, all of which lies below `root`.
std::vector<Diagnostic> mendable(const std::vector<Diagnostic>& diagnostics, const std::string& root);

/// The files with every fix of `diagnostics` made, sorted by path. Throws std::runtime_error, naming both errors, where
/// two fixes overlap.
std::vector<MendedFile> apply_fixes(const std::vector<Diagnostic>& diagnostics);

}  // namespace modgen
