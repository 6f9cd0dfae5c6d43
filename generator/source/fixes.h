// Fixes of errors in specs: the edits that modgen proposes, and their application in memory.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/source/parsed.h"

namespace modgen {

/// Includes the spec of `family` in `file`, after its other includes.
std::vector<Edit> include_spec(const Parsed& parsed, uint32_t file, const std::string& family);

/// Inserts #pragma once after the opening comment of `file`.
std::vector<Edit> add_pragma_once(const Parsed& parsed, uint32_t file);

/// Adds `line` at the end of `file`.
std::vector<Edit> append_line(const Parsed& parsed, uint32_t file, const std::string& line);

/// Removes a declaration or statement with its semicolon, and its lines if they contain nothing else.
std::vector<Edit> remove_with_line(const Parsed& parsed, SourceSpan where);

/// Inserts `statement` before the one at `where`.
std::vector<Edit> write_before(SourceSpan where, const std::string& statement);

/// Renames `name` and its `…Impl` to `new_name` throughout `file`; empty if the same word is also a member's name.
std::vector<Edit> rename_class(const Parsed& parsed, uint32_t file, const std::string& name,
                               const std::string& new_name);

/// Declares `member` first in the public section of the class whose body begins after the brace at `open`.
std::vector<Edit> declare_public(const Parsed& parsed, SourceSpan open, bool is_struct, const std::string& member);

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
