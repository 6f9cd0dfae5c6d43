// Input of one run: its files, the preprocessor's and the compiler's findings, and source locations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/source/span.h"

namespace clang {
class Decl;
class FileID;
class SourceLocation;
class SourceManager;
class SourceRange;
}  // namespace clang

namespace modgen {

/// Folders of the project, modgen's own files, torch, Clang's headers and the cache.
struct ParseOptions {
  std::string root, shipped, torch, clang_resources, cache;  // absolute; the cache is empty if there is none
};

/// Text that the compiler read in addition to a file's own text.
struct ImplicitText {
  uint32_t offset;  // in the file on disk
  std::string text;
};

/// A project file that the compiler read: a spec, a file that it includes, or a flattened text.
struct SourceFile {
  std::string path;                               // as shown: relative to the root if it is below it
  std::string absolute;                           // empty for flattened text
  std::string text;                               // as read: with implicit text, all within lines of the file
  std::vector<ImplicitText> implicit_texts = {};  // in source order
  std::string guard = {};                         // the macro of its include guard; empty if it has none
};

/// `text`, of a file, with `implicit_texts` inserted.
std::string with_implicit_text(const std::string& text, const std::vector<ImplicitText>& implicit_texts);

/// The run's table of files; spans index it. Index 0 is not a file.
class SourceTable {
 public:
  SourceTable() : files_(1) {}
  uint32_t add(SourceFile file);
  const SourceFile& operator[](uint32_t index) const { return files_[index]; }
  SourceFile& operator[](uint32_t index) { return files_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(files_.size()); }
  uint32_t find(const std::string& absolute) const;  // 0 if it is not in the table
  std::string_view text(SourceSpan span) const;
  Location locate(SourceSpan span) const;
  /// `span` in the file on disk; nullopt if all of it is implicit text.
  std::optional<SourceSpan> on_disk(SourceSpan span) const;

 private:
  std::vector<SourceFile> files_;
};

/// A diagnostic before its location is mapped to a spec.
struct Remark {
  Diagnostic::Severity severity;
  SourceSpan where;  // file 0 if it is not in a project file
  std::string message;
  std::string advice;
  std::vector<Remark> notes;
  std::vector<Edit> fix = {};             // in project files
  std::vector<std::string> reasons = {};  // notes that are not in project files
};

/// The error of a text that is not UTF-8 or that has bytes which no editor shows; nullopt if there is none.
std::optional<Remark> encoding_error(uint32_t file, const std::string& text);

struct Inclusion {
  uint32_t file = 0;     // the including file
  uint32_t offset = 0;   // offset of its #
  std::string spelling;  // <cmath> or "modular/llama.h"
  uint32_t target = 0;   // the included file if it is a project file
};

struct MacroDefinition {
  std::string name;
  SourceSpan where;        // location of its name
  SourceSpan text;         // from its name to the end of its replacement list
  bool undefined = false;  // has an #undef in the same file
};

/// A use of a project file's macro, also in the body of another macro.
struct MacroUse {
  SourceSpan where;  // location of the name as written; of the outer macro's name if it is used in a body
  size_t macro;      // its index among the definitions
};

/// An outermost condition, from `#if …` to its `#endif`.
struct Condition {
  SourceSpan where;
  bool closed = false;
};

/// Source positions of one run. Clang's FileIDs stay within the stages that see the syntax tree.
class Parsed {
 public:
  SourceTable sources;
  std::vector<Inclusion> inclusions;
  std::vector<MacroDefinition> macros;
  std::vector<MacroUse> macro_uses;
  std::vector<SourceSpan> undefs;  // the directives
  std::vector<Condition> conditions;
  std::vector<Remark> remarks;
  struct Absent {
    uint32_t file;  // the including file; 0 for the prelude's candidates
    std::string path;
    auto operator<=>(const Absent&) const = default;
  };
  std::vector<Absent> absent;           // include candidates that did not exist
  std::vector<std::string> notices;     // full sentences for the user about the run itself
  std::vector<std::string> prelude;     // absolute paths of the precompiled prelude's inputs
  std::vector<clang::Decl*> top_level;  // declarations of the specs at file scope, in order

  /// The location of a token: its spelling or, if it comes from a macro's body, the macro's call.
  SourceSpan token(const clang::SourceManager& manager, clang::SourceLocation location) const;
  /// From the first to the end of the last token of `range`, in file positions.
  SourceSpan span(const clang::SourceManager& manager, clang::SourceRange range) const;
  /// All of a declaration.
  SourceSpan span(const clang::SourceManager& manager, const clang::Decl& decl) const;

  /// Whether any remark is an error: remarks may be warnings.
  bool has_errors() const;

  uint32_t index_of(clang::FileID file) const;
  std::map<unsigned, uint32_t> file_ids;  // hash of FileID to index
};

}  // namespace modgen
