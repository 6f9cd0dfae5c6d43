// Diagnostics of modgen: messages with source locations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// A location in a project file, as a compiler prints it. Lines and columns count from 1; line 0 means the file itself.
struct Location {
  std::string path;  // relative to the root if it is below it
  uint32_t line = 0;
  uint32_t column = 0;
  std::string source_line;  // the text of that line, for the caret
};

/// A change of a project file: bytes [begin, end) become `text`.
struct FixIt {
  std::string path;  // absolute
  uint32_t begin = 0;
  uint32_t end = 0;
  std::string text;
  bool operator==(const FixIt&) const = default;
};

struct Diagnostic {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  Location where;
  std::string message;            // description of the error
  std::string advice;             // the fix in words; may be empty
  std::vector<Diagnostic> notes;  // the inherited code that it clashes with, …
  std::vector<FixIt> fix = {};    // changes that together fix it; empty if unknown
};

/// One diagnostic with its notes as a compiler prints it: location, message, source line with caret, advice.
std::string to_text(const Diagnostic& diagnostic);

/// An error or warning at a position in the flattened text; generate() maps it to the spec that the text comes from.
struct Finding {
  bool is_error = true;
  SourceSpan where;
  std::string message;
  std::string advice;
  std::vector<Finding> notes;
};

/// Adds an error unless it has already been reported.
void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice);

}  // namespace modgen
