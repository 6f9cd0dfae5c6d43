// What modgen reports about specs, as `modgen --diagnostics FILE` writes it.
#pragma once

#include <filesystem>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

/// The diagnostics in `file`; none if modgen ended before it wrote them. Throws std::runtime_error where the file is
/// not modgen's.
std::vector<Diagnostic> read_diagnostics(const std::filesystem::path& file);

/// Where `fix` begins and how long it is in characters of its file's text; {0, 0} where the file is no longer as modgen
/// read it.
struct Characters {
  size_t offset = 0, length = 0;
};
Characters in_characters(const FixIt& fix);

/// The column of a location in characters, as editors count.
size_t column_in_characters(const Location& where);

}  // namespace modgen
