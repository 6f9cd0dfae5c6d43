#include "generator/tool/diagnostics_json.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

namespace modgen {

namespace {

void write(llvm::json::OStream& json, const Diagnostic& diagnostic) {
  constexpr const char* kNames[] = {"error", "warning", "note"};
  const auto text = [](const std::string& bytes) { return llvm::json::fixUTF8(bytes); };
  json.attribute("severity", kNames[static_cast<int>(diagnostic.severity)]);
  json.attribute("file", text(diagnostic.where.path));
  json.attribute("line", diagnostic.where.line);
  json.attribute("column", diagnostic.where.column);
  json.attribute("source_line", text(diagnostic.where.source_line));
  json.attribute("message", text(diagnostic.message));
  json.attribute("advice", text(diagnostic.advice));
  json.attributeArray("notes", [&] {
    for (const Diagnostic& note : diagnostic.notes) json.object([&] { write(json, note); });
  });
  json.attributeArray("fix", [&] {
    for (const FixIt& fix : diagnostic.fix)
      json.object([&] {
        json.attribute("file", text(fix.path));
        json.attribute("begin", fix.begin);
        json.attribute("end", fix.end);
        json.attribute("text", text(fix.text));
      });
  });
}

}  // namespace

std::string to_json(const std::vector<Diagnostic>& diagnostics) {
  std::string result;
  llvm::raw_string_ostream out(result);
  llvm::json::OStream json(out, 2);
  json.array([&] {
    for (const Diagnostic& diagnostic : diagnostics) json.object([&] { write(json, diagnostic); });
  });
  out << "\n";
  out.flush();
  return result;
}

}  // namespace modgen
