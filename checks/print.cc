#include "checks/print.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checks/spec_errors.h"

namespace modgen {

namespace {

using Json = nlohmann::ordered_json;

std::string name_for(Verdict verdict) {
  switch (verdict) {
    case Verdict::drift:
      return "drift";
    case Verdict::fixed:
      return "fixed";
    case Verdict::unchecked:
      return "unchecked";
    case Verdict::rejected:
      return "rejected";
  }
  throw std::logic_error("a verdict without a name");
}

std::string text(const std::vector<Difference>& differences, bool with_diff) {
  std::string lines;
  bool drift = false;
  for (const Difference& one : differences) {
    drift |= one.verdict == Verdict::drift;
    if (one.error) {
      lines += to_text(*one.error);
      continue;
    }
    lines += one.file + ':' + std::to_string(one.line) + ": " + name_for(one.verdict) + ": " + one.message + '\n';
    if (with_diff) lines += one.diff;
  }
  if (drift) lines += "To accept the specs as they are: modcheck --fix, or modgen --all.\n";
  return lines;
}

void add_error(const Diagnostic& error, Json& entry) {
  entry["column"] = error.where.column;
  entry["advice"] = error.advice;
  entry["notes"] = Json::array();
  for (const Diagnostic& note : error.notes)
    entry["notes"].push_back({{"file", note.where.path},
                              {"line", note.where.line},
                              {"column", note.where.column},
                              {"message", note.message}});
  entry["can_be_fixed"] = !error.fix.empty();
}

std::string json(const std::vector<Difference>& differences, bool with_diff) {
  Json list = Json::array();
  for (const Difference& one : differences) {
    Json entry = {{"verdict", name_for(one.verdict)}, {"file", one.file}, {"line", one.line}, {"message", one.message}};
    if (one.error)
      add_error(*one.error, entry);
    else if (with_diff)
      entry["diff"] = one.diff;
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

/// Within a property a colon and a comma would end it, too.
std::string escaped_property(const std::string& value) {
  std::string result;
  for (char c : escaped(value)) result += c == ':' ? "%3A" : c == ',' ? "%2C" : std::string(1, c);
  return result;
}

std::string github(const std::vector<Difference>& differences) {
  std::string lines;
  for (const Difference& one : differences) {
    lines += one.verdict == Verdict::fixed ? "::notice file=" : "::error file=";
    lines += escaped_property(one.file) + ",line=" + std::to_string(one.line);
    if (one.error) lines += ",col=" + std::to_string(column_in_characters(one.error->where));
    lines += ",title=modcheck " + name_for(one.verdict) + "::" + escaped(one.message);
    if (one.error && !one.error->advice.empty()) lines += "%0A" + escaped(one.error->advice);
    lines += '\n';
  }
  return lines;
}

Json artifact(const std::string& file) { return {{"uri", file}}; }

Json place(const Location& where) {
  Json region = {{"startLine", std::max(1u, where.line)}};
  if (where.line > 0) region["startColumn"] = column_in_characters(where);
  return {{"physicalLocation", {{"artifactLocation", artifact(where.path)}, {"region", region}}}};
}

/// What modgen says about a spec: notes are related places, a fix is one replacement or several.
void add_error(const Diagnostic& error, const std::filesystem::path& root, Json& result) {
  if (!error.advice.empty()) result["message"]["text"] = error.message + '\n' + error.advice;
  result["locations"] = Json::array({place(error.where)});
  for (const Diagnostic& note : error.notes) {
    if (note.where.path.empty()) continue;
    Json related = place(note.where);
    related["message"] = {{"text", note.message}};
    result["relatedLocations"].push_back(related);
  }
  Json changes = Json::array();
  for (const FixIt& fix : error.fix) {
    const Characters where = in_characters(fix);
    const Json region = {{"charOffset", where.offset}, {"charLength", where.length}};
    changes.push_back(
        {{"artifactLocation", artifact(std::filesystem::path(fix.path).lexically_relative(root))},
         {"replacements", Json::array({{{"deletedRegion", region}, {"insertedContent", {{"text", fix.text}}}}})}});
  }
  if (!changes.empty()) result["fixes"] = Json::array({{{"artifactChanges", changes}}});
}

constexpr const char* meaning(Verdict verdict) {
  switch (verdict) {
    case Verdict::drift:
      return "generated/ is not what modular/ says";
    case Verdict::fixed:
      return "generated/ was not what modular/ says, and is now";
    case Verdict::unchecked:
      return "it could not be checked whether generated/ is what modular/ says";
    case Verdict::rejected:
      return "a spec that does not generate: an error in it or in its parallel plan";
  }
  return "";
}

std::string sarif(const std::vector<Difference>& differences, const std::filesystem::path& root) {
  Json results = Json::array();
  for (const Difference& one : differences) {
    const Json location = {
        {"physicalLocation", {{"artifactLocation", artifact(one.file)}, {"region", {{"startLine", one.line}}}}}};
    Json result = {{"ruleId", name_for(one.verdict)},
                   {"level", one.verdict == Verdict::fixed ? "note" : "error"},
                   {"message", {{"text", one.message}}},
                   {"locations", Json::array({location})}};
    if (one.error) add_error(*one.error, root, result);
    results.push_back(result);
  }
  Json rules = Json::array();
  for (Verdict verdict : {Verdict::drift, Verdict::fixed, Verdict::unchecked, Verdict::rejected})
    rules.push_back({{"id", name_for(verdict)}, {"shortDescription", {{"text", meaning(verdict)}}}});
  const Json driver = {{"name", "modcheck"}, {"rules", rules}};
  const Json run = {{"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", results}};
  const Json log = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return log.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string print(const std::vector<Difference>& differences, std::string_view format, bool with_diff,
                  const std::filesystem::path& root) {
  if (format == "json") return json(differences, with_diff);
  if (format == "github") return github(differences);
  if (format == "sarif") return sarif(differences, std::filesystem::canonical(root));
  return text(differences, with_diff);
}

}  // namespace modgen
