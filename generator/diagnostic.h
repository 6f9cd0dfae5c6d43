// What modgen has to say about a spec: located text that a person can act on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modgen {

/// A place in a project file, as a compiler prints it. Lines and columns count from 1; line 0 means the whole file.
struct Location {
  std::string path;  // relative to the root where it lies below it
  uint32_t line = 0;
  uint32_t column = 0;
  std::string source_line;  // the text of that line, for the caret
};

struct Diagnostic {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  Location where;
  std::string message;            // what is wrong
  std::string advice;             // what to write instead; may be empty
  std::vector<Diagnostic> notes;  // the inherited code that it clashes with, …
};

/// One diagnostic with its notes as a compiler prints it: location, message, source line with caret, advice.
std::string to_text(const Diagnostic& diagnostic);

}  // namespace modgen
