#include "generator/source/diagnostic.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace modgen {

namespace {

/// The part of a source line that is shown, at most some screen lines around `column`, which becomes that in the part.
std::string_view shown_part(std::string_view line, uint32_t& column) {
  constexpr uint32_t kMost = 400;
  if (line.size() <= kMost) return line;
  uint32_t first = column > kMost / 2 ? column - kMost / 2 : 0;
  while (first < line.size() && (static_cast<unsigned char>(line[first]) & 0xC0) == 0x80) ++first;
  column -= std::min(column, first);
  return line.substr(std::min<size_t>(first, line.size()), kMost);
}

}  // namespace

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
    uint32_t column = where.column;
    const std::string_view line = shown_part(where.source_line, column);
    text.append("  ").append(line).append("\n  ");
    // Keeps the caret's column under tabs and multi-byte characters.
    for (uint32_t i = 0; i + 1 < column && i < line.size(); ++i) {
      const auto byte = static_cast<unsigned char>(line[i]);
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
