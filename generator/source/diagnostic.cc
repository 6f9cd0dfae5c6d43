#include "generator/source/diagnostic.h"

#include <algorithm>
#include <utility>

namespace modgen {

std::string to_text(const Diagnostic& diagnostic) {
  constexpr const char* kNames[] = {"error", "warning", "note"};
  const Location& where = diagnostic.where;
  std::string text;
  if (!where.path.empty()) {
    text += where.path + ":";
    if (where.line) text += std::to_string(where.line) + ":" + std::to_string(where.column) + ":";
    text += " ";
  }
  text += std::string(kNames[static_cast<int>(diagnostic.severity)]) + ": " + diagnostic.message + "\n";
  if (where.line) {
    text += "  " + where.source_line + "\n  ";
    // Keeps the caret's column under tabs and multi-byte characters.
    for (uint32_t i = 0; i + 1 < where.column && i < where.source_line.size(); ++i) {
      const auto byte = static_cast<unsigned char>(where.source_line[i]);
      if (byte == '\t')
        text += '\t';
      else if ((byte & 0xC0) != 0x80)
        text += ' ';
    }
    text += "^\n";
  }
  if (!diagnostic.advice.empty()) text += "  " + diagnostic.advice + "\n";
  for (const Diagnostic& note : diagnostic.notes) text += to_text(note);
  return text;
}

void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice) {
  const bool known = std::any_of(findings.begin(), findings.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings.push_back({true, where, std::move(message), std::move(advice), {}});
}

}  // namespace modgen
