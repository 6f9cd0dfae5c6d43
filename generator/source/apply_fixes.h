// The specs with the fix-its of diagnostics applied. Nothing is written here.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/source/parsed.h"

namespace modgen {

/// `edit` of the text that was read from `file`, as a change of the file's own bytes: new lines end as the file's do.
FixIt fix_it(const SourceFile& file, const Edit& edit);

struct MendedFile {
  std::string path;  // absolute
  std::string before, after;
};

/// Those of `diagnostics` that have a fix which is entirely below `root`.
std::vector<Diagnostic> mendable(const std::vector<Diagnostic>& diagnostics, const std::string& root);

/// The files with every fix of `diagnostics` applied, sorted by path. Throws std::runtime_error, naming both errors,
/// where two fixes overlap.
std::vector<MendedFile> apply_fixes(const std::vector<Diagnostic>& diagnostics);

}  // namespace modgen
