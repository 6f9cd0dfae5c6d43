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
  for (const Difference& difference : differences) {
    drift |= difference.verdict == Verdict::drift;
    if (difference.error) {
      lines += to_text(*difference.error);
      continue;
    }
    lines += difference.file + ':' + std::to_string(difference.line) + ": " + name_for(difference.verdict) + ": " +
             difference.message + '\n';
    if (with_diff) lines += difference.diff;
  }
  if (drift) lines += "To update the generated files, run modcheck --fix or modgen --all.\n";
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
  for (const Difference& difference : differences) {
    Json entry = {{"verdict", name_for(difference.verdict)},
                  {"file", difference.file},
                  {"line", difference.line},
                  {"message", difference.message}};
    if (difference.error)
      add_error(*difference.error, entry);
    else if (with_diff)
      entry["diff"] = difference.diff;
    list.push_back(entry);
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Escapes a message of a workflow command, which ends at the end of its line. GitHub decodes these three sequences.
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

/// Escapes a property value, which a colon or comma would end as well.
std::string escaped_property(const std::string& value) {
  std::string result;
  for (char c : escaped(value)) result += c == ':' ? "%3A" : c == ',' ? "%2C" : std::string(1, c);
  return result;
}

std::string github(const std::vector<Difference>& differences) {
  std::string lines;
  for (const Difference& difference : differences) {
    lines += difference.verdict == Verdict::fixed ? "::notice file=" : "::error file=";
    lines += escaped_property(difference.file) + ",line=" + std::to_string(difference.line);
    if (difference.error) lines += ",col=" + std::to_string(column_in_characters(difference.error->where));
    lines += ",title=modcheck " + name_for(difference.verdict) + "::" + escaped(difference.message);
    if (difference.error && !difference.error->advice.empty()) lines += "%0A" + escaped(difference.error->advice);
    lines += '\n';
  }
  return lines;
}

Json artifact(const std::string& file) { return {{"uri", file}}; }

Json sarif_location(const Location& where) {
  Json region = {{"startLine", std::max(1u, where.line)}};
  if (where.line > 0) region["startColumn"] = column_in_characters(where);
  return {{"physicalLocation", {{"artifactLocation", artifact(where.path)}, {"region", region}}}};
}

/// Adds modgen's error in a spec: notes become related locations, a fix becomes one or more replacements.
void add_error(const Diagnostic& error, const std::filesystem::path& root, Json& result) {
  if (!error.advice.empty()) result["message"]["text"] = error.message + '\n' + error.advice;
  result["locations"] = Json::array({sarif_location(error.where)});
  for (const Diagnostic& note : error.notes) {
    if (note.where.path.empty()) continue;
    Json related = sarif_location(note.where);
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
      return "generated/ is out of date with modular/";
    case Verdict::fixed:
      return "generated/ was out of date with modular/ and has been fixed";
    case Verdict::unchecked:
      return "it could not be checked whether generated/ is up to date with modular/";
    case Verdict::rejected:
      return "a spec that cannot be generated: it or its parallel plan has an error";
  }
  return "";
}

std::string sarif(const std::vector<Difference>& differences, const std::filesystem::path& root) {
  Json results = Json::array();
  for (const Difference& difference : differences) {
    const Json location = {
        {"physicalLocation",
         {{"artifactLocation", artifact(difference.file)}, {"region", {{"startLine", difference.line}}}}}};
    Json result = {{"ruleId", name_for(difference.verdict)},
                   {"level", difference.verdict == Verdict::fixed ? "note" : "error"},
                   {"message", {{"text", difference.message}}},
                   {"locations", Json::array({location})}};
    if (difference.error) add_error(*difference.error, root, result);
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
