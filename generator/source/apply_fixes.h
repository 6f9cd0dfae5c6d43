// Applies the fix-its of diagnostics to specs, in memory.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/source/parsed.h"

namespace modgen {

/// Converts `edit`, of the text that was read from `file`, to a change of the file's bytes: new lines use the file's
/// line endings.
FixIt fix_it(const SourceFile& file, const Edit& edit);

struct MendedFile {
  std::string path;  // absolute
  std::string before, after;
};

/// The diagnostics whose fix is entirely below `root`.
std::vector<Diagnostic> mendable(const std::vector<Diagnostic>& diagnostics, const std::string& root);

/// The files with every fix of `diagnostics` applied, sorted by path. Throws std::runtime_error, naming both errors, if
/// two fixes overlap.
std::vector<MendedFile> apply_fixes(const std::vector<Diagnostic>& diagnostics);

}  // namespace modgen
