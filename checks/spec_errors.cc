#include "checks/spec_errors.h"
#include "generator/source/files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace modgen {

namespace {

/// Number of characters in a UTF-8 text.
size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

Diagnostic read(const nlohmann::json& json) {
  Diagnostic result;
  const std::string severity = json.at("severity");
  result.severity = severity == "error"     ? Diagnostic::Severity::error
                    : severity == "warning" ? Diagnostic::Severity::warning
                                            : Diagnostic::Severity::note;
  result.where = {json.at("file"), json.at("line"), json.at("column"), json.at("source_line")};
  result.message = json.at("message");
  result.advice = json.at("advice");
  for (const nlohmann::json& note : json.at("notes")) result.notes.push_back(read(note));
  for (const nlohmann::json& fix : json.at("fix"))
    result.fix.push_back({fix.at("file"), fix.at("begin"), fix.at("end"), fix.at("text")});
  return result;
}

}  // namespace

std::vector<Diagnostic> read_diagnostics(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_file_if_any(file);
  std::vector<Diagnostic> diagnostics;
  if (!text) return diagnostics;
  try {
    for (const nlohmann::json& entry : nlohmann::json::parse(*text)) diagnostics.push_back(read(entry));
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(file.string() + ": not modgen's diagnostics: " + error.what());
  }
  return diagnostics;
}

Characters in_characters(const FixIt& fix) {
  const std::string text = read_file_if_any(fix.path).value_or("");
  if (fix.end > text.size() || fix.begin > fix.end) return {};
  const std::string_view view = text;
  return {characters(view.substr(0, fix.begin)), characters(view.substr(fix.begin, fix.end - fix.begin))};
}

size_t column_in_characters(const Location& where) {
  const std::string_view line = where.source_line;
  return 1 + characters(line.substr(0, std::min<size_t>(where.column > 0 ? where.column - 1 : 0, line.size())));
}

}  // namespace modgen
