#include "generator/source/diagnostic.h"

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

}  // namespace modgen
