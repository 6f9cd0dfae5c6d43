// What one run read: its files, what the preprocessor found in them, what the compiler reported, and where everything
// is.
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

/// Where the project, modgen's own files, torch, Clang's headers and the cache are.
struct ParseOptions {
  std::string root, shipped, torch, clang_resources, cache;  // absolute; the cache is empty where there is none
};

/// Text that the compiler read at a place of a file where the file itself has none.
struct ImplicitText {
  uint32_t offset;  // in the file
  std::string text;
};

/// A project file that the compiler read: a spec, what it includes, or a flattened text.
struct SourceFile {
  std::string path;                         // as shown: relative to the root if it is below it
  std::string absolute;                     // empty for flattened text
  std::string text;                         // as it was read: with what was supplied, all within lines of the file
  std::vector<ImplicitText> supplied = {};  // in source order
  std::string guard = {};                   // the macro of its include guard; empty where it has none
};

/// `text`, of a file, with `supplied` in it.
std::string with_implicit_text(const std::string& text, const std::vector<ImplicitText>& supplied);

/// The run's table of files; spans index it. Index 0 is not a file.
class SourceTable {
 public:
  SourceTable() : files_(1) {}
  uint32_t add(SourceFile file);
  const SourceFile& operator[](uint32_t index) const { return files_[index]; }
  SourceFile& operator[](uint32_t index) { return files_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(files_.size()); }
  uint32_t find(const std::string& absolute) const;  // 0 where it is not in the table
  std::string_view text(SourceSpan span) const;
  Location locate(SourceSpan span) const;
  /// `span` in the file as it lies on disk; nullopt where all of it was supplied.
  std::optional<SourceSpan> on_disk(SourceSpan span) const;

 private:
  std::vector<SourceFile> files_;
};

/// What the compiler reported, before it is moved to a spec.
struct Remark {
  Diagnostic::Severity severity;
  SourceSpan where;  // file 0 where it is in no project file
  std::string message;
  std::string advice;
  std::vector<Remark> notes;
  std::vector<Edit> fix = {};  // in project files
};

struct Inclusion {
  uint32_t file = 0;     // the file that includes
  uint32_t offset = 0;   // of its #
  std::string spelling;  // <cmath> or "modular/llama.h"
  uint32_t target = 0;   // the included file where it is a project file
};

struct MacroDefinition {
  std::string name;
  SourceSpan where;        // of its name
  SourceSpan text;         // from its name to the end of what it stands for
  bool undefined = false;  // by an #undef in the same file
};

/// Where a project file's macro is used, even in the body of another.
struct MacroUse {
  SourceSpan where;  // of the name as written; of the outer macro's where it is used in a body
  size_t macro;      // its index among the definitions
};

/// `#if …` to its `#endif`, that of the outermost condition.
struct Condition {
  SourceSpan where;
  bool closed = false;
};

/// Positions of one run's files. Clang's FileIDs stay within the stages that see the syntax tree.
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
    uint32_t file;  // that includes; 0 for the prelude's
    std::string path;
    auto operator<=>(const Absent&) const = default;
  };
  std::vector<Absent> absent;        // include candidates that did not exist
  std::vector<std::string> notices;  // what a person should know of the run itself: sentences
  std::vector<std::string> prelude;  // absolute paths of what the precompiled prelude was made of
  std::vector<clang::Decl*>
      top_level;  // what the specs declare outside of namespaces, in order; for flatten and finish alone

  /// The place of a token: where it was spelled, or for one from a macro's body where that macro was called.
  SourceSpan token(const clang::SourceManager& manager, clang::SourceLocation location) const;
  /// From the first to the end of the last token of `range`, in file positions.
  SourceSpan span(const clang::SourceManager& manager, clang::SourceRange range) const;

  /// Whether something was rejected: remarks may be warnings.
  bool has_errors() const;

  uint32_t index_of(clang::FileID file) const;
  std::map<unsigned, uint32_t> file_ids;  // hash of FileID to index
};

}  // namespace modgen
