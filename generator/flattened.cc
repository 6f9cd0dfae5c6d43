#include "generator/generate.h"

#include <algorithm>
#include <stdexcept>

#include "generator/flatten/family.h"
#include "generator/model/model.h"
#include "generator/parse/session.h"
#include "generator/source/families.h"

namespace modgen {
namespace {

void throw_first_error(const Parsed& parsed) {
  if (!parsed.has_errors()) return;
  const Remark& first = *std::ranges::find(parsed.remarks, Diagnostic::Severity::error, &Remark::severity);
  const Location where = parsed.sources.locate(first.where);
  throw std::runtime_error(where.path + ":" + std::to_string(where.line) + ": " + first.message + "\n" +
                           where.source_line);
}

}  // namespace

std::vector<FlattenedSpec> flatten_specs(const GenerateOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& family : options.families) paths.push_back(spec_name(family));
  Session session(resolved(options), paths);
  Parsed& parsed = session.parsed();
  while (session.read_spec()) continue;
  throw_first_error(parsed);
  Specs specs(session.compiler(), parsed);
  specs.read_new();
  std::vector<FlattenedSpec> result;
  for (const std::string& name : options.families) {
    throw_first_error(parsed);
    Family family(specs, *specs.family(name));
    std::string text = family.flatten().text();
    result.push_back({name, family.spec().prefix, family.spec().names.model_type, std::move(text)});
  }
  throw_first_error(parsed);
  return result;
}

std::vector<FamilyModel> read_flattened(const GenerateOptions& options, const std::vector<FlattenedSpec>& specs) {
  std::vector<std::string> texts;
  for (const FlattenedSpec& spec : specs) texts.push_back(spec.text);
  // Only the prelude, once for each text.
  Session session(resolved(options), std::vector<std::string>(specs.size(), "modular/modular.h"));
  while (session.read_spec()) continue;
  throw_first_error(session.parsed());
  const std::vector<uint32_t> files = session.read_flattened(texts);
  throw_first_error(session.parsed());
  std::vector<FamilyModel> models;
  for (size_t index = 0; index < files.size(); ++index) {
    models.push_back(
        read_model(session.compiler(), session.parsed(), files[index], specs[index].family, specs[index].prefix));
    models.back().model_type = specs[index].model_type;
  }
  throw_first_error(session.parsed());
  return models;
}

FlattenedSpec renamed(FlattenedSpec spec, const std::string& family) {
  const std::string before = "flattened::" + spec.family;
  for (size_t at = 0; (at = spec.text.find(before, at)) != std::string::npos;) {
    const size_t end = at + before.size();
    const bool is_full_name =
        end == spec.text.size() || !(std::isalnum(static_cast<unsigned char>(spec.text[end])) || spec.text[end] == '_');
    if (is_full_name) spec.text.replace(at, before.size(), "flattened::" + family);
    at = end;
  }
  spec.family = family;
  return spec;
}

}  // namespace modgen
