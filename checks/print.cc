#include "checks/print.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace modgen {

namespace {

using Json = nlohmann::ordered_json;

std::string name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::drift:
      return "drift";
    case Verdict::fixed:
      return "fixed";
    case Verdict::unchecked:
      return "unchecked";
  }
  throw std::logic_error("a verdict without a name");
}

std::string text(const std::vector<Difference>& differences, bool with_diff) {
  std::string lines;
  bool drift = false;
  for (const Difference& one : differences) {
    lines += one.file + ':' + std::to_string(one.line) + ": " + name_of(one.verdict) + ": " + one.message + '\n';
    if (with_diff) lines += one.diff;
    drift |= one.verdict == Verdict::drift;
  }
  if (drift) lines += "To accept the specs as they are: modcheck --fix, or modgen --all.\n";
  return lines;
}

std::string json(const std::vector<Difference>& differences, bool with_diff) {
  Json list = Json::array();
  for (const Difference& one : differences) {
    Json entry = {{"verdict", name_of(one.verdict)}, {"file", one.file}, {"line", one.line}, {"message", one.message}};
    if (with_diff) entry["diff"] = one.diff;
    list.push_back(entry);
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Workflow commands end at a line's end: GitHub decodes these three.
std::string escaped(const std::string& message) {
  std::string result;
  for (char c : message) {
    if (c == '%')
      result += "%25";
    else if (c == '\n')
      result += "%0A";
    else if (c == '\r')
      result += "%0D";
    else
      result += c;
  }
  return result;
}

std::string github(const std::vector<Difference>& differences) {
  std::string lines;
  for (const Difference& one : differences) {
    lines += (one.verdict == Verdict::fixed ? "::notice file=" : "::error file=") + one.file +
             ",line=" + std::to_string(one.line) + ",title=modcheck " + name_of(one.verdict) +
             "::" + escaped(one.message) + '\n';
  }
  return lines;
}

std::string sarif(const std::vector<Difference>& differences) {
  Json results = Json::array();
  for (const Difference& one : differences) {
    const Json location = {
        {"physicalLocation", {{"artifactLocation", {{"uri", one.file}}}, {"region", {{"startLine", one.line}}}}}};
    results.push_back({{"ruleId", name_of(one.verdict)},
                       {"level", one.verdict == Verdict::fixed ? "note" : "error"},
                       {"message", {{"text", one.message}}},
                       {"locations", Json::array({location})}});
  }
  Json rules = Json::array();
  for (Verdict verdict : {Verdict::drift, Verdict::fixed, Verdict::unchecked})
    rules.push_back({{"id", name_of(verdict)}});
  const Json driver = {{"name", "modcheck"}, {"rules", rules}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  const Json log = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return log.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string print(const std::vector<Difference>& differences, std::string_view format, bool with_diff) {
  if (format == "json") return json(differences, with_diff);
  if (format == "github") return github(differences);
  if (format == "sarif") return sarif(differences);
  return text(differences, with_diff);
}

}  // namespace modgen
