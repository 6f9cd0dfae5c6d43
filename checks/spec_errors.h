// Reads modgen's errors in specs, as written by `modgen --diagnostics FILE`.
#pragma once

#include <filesystem>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

/// The diagnostics in `file`; empty if modgen ended before it wrote them. Throws std::runtime_error if modgen did not
/// write the file.
std::vector<Diagnostic> read_diagnostics(const std::filesystem::path& file);

/// Offset and length of a fix in characters of its file; {0, 0} if the file has changed since modgen read it.
struct Characters {
  size_t offset = 0, length = 0;
};
Characters in_characters(const FixIt& fix);

/// The column of a location in characters, as editors count.
size_t column_in_characters(const Location& where);

}  // namespace modgen
