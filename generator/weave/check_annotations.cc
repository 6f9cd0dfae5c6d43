// Checks that each annotation fits the declaration that it marks.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "generator/weave/plan.h"
#include "generator/weave/shard_types.h"

namespace modgen {
namespace {

bool is_integer(const Field& field) {
  constexpr std::array types = {"long", "int", "unsigned long", "unsigned int", "short"};
  return std::ranges::find(types, field.canonical) != types.end();
}

/// Whether `field` holds a `layer`, directly or as the element type of a list.
bool is_layer(const Field& field, std::string_view layer) {
  std::string_view type = field.canonical;
  if (type.starts_with("modular::ModuleListOf<")) type = type.substr(22, type.size() - 23);
  if (layer == "Linear" && (type == "modular::TransposedLinear" || type == "modular::nn::Linear")) return true;
  return type == "torch::nn::" + std::string(layer);
}

/// Kinds of declarations that `field` is, as flags.
unsigned marked_as(const Field& field) {
  unsigned marked = 0;
  if (is_layer(field, "Linear")) marked |= kLinear;
  if (is_layer(field, "Embedding")) marked |= kEmbedding;
  if (field.canonical == "at::Tensor") marked |= kParameter;
  if (is_integer(field)) marked |= kInteger;
  if (field.modules != Field::Modules::none) marked |= kModule;
  if (field.canonical.starts_with("modular::ModuleListOf<")) marked |= kModuleList;
  return marked;
}

/// Checks the annotations of `field` against its type and against each other.
void check_kinds(const Field& field, std::vector<Finding>& findings) {
  const unsigned marked = marked_as(field);
  const Annotation* split = nullptr;
  const Annotation* stage = nullptr;
  for (const Annotation& annotation : field.annotations) {
    const AnnotationInfo& info = annotation_info(annotation.kind);
    if (info.marks != kAnything && (info.marks & marked) == 0)
      report(findings, annotation.where, std::string(info.macro) + " marks " + field.name + ", a " + field.type,
             "it can mark " + std::string(info.fits));
    const bool is_split = is_tensor_parallel(annotation.kind) && annotation.kind != AnnotationKind::tp_local;
    for (auto [matches, before] : {std::pair{is_split, &split}, std::pair{is_stage(annotation.kind), &stage}}) {
      if (!matches) continue;
      if (*before)
        report(findings, annotation.where, field.name + " has two annotations of one kind, which contradict each other",
               "keep one of them");
      *before = &annotation;
    }
  }
}

bool concerns_runtime(const Annotation& annotation) {
  return is_tensor_parallel(annotation.kind) || is_stage(annotation.kind) ||
         annotation.kind == AnnotationKind::tied_to || annotation.kind == AnnotationKind::ties;
}

/// Checks that no annotation for the runtime marks `field`, of a class that is not a module.
void check_unmarked(const Class& owner, const Field& field, std::vector<Finding>& findings) {
  for (const Annotation& annotation : field.annotations)
    if (concerns_runtime(annotation))
      report(findings, annotation.where,
             "a runtime annotation marks " + field.name + " of " + owner.name + ", which is not a module class",
             "mark members of module classes");
}

void check_field(const Class& owner, const Field& field, std::vector<Finding>& findings) {
  check_kinds(field, findings);
  if (field.modules == Field::Modules::otherwise)
    return report(findings, field.where,
                  field.name + ", a " + field.type +
                      ", holds modules in a way that modgen does not support: it could not "
                      "split their parameters or insert their parallel calls",
                  "hold each by its holder (the class that TORCH_MODULE defines), or use ModuleListOf for a list");
  if (owner.holder.empty()) return check_unmarked(owner, field, findings);
  using Registered = Construction::Registered;
  const Registered registered = find_construction(owner, field).registered;
  const bool module = field.modules == Field::Modules::by_holder, tensor = field.canonical == "at::Tensor";
  if ((module || tensor) && registered == Registered::no)
    report(findings, field.where,
           field.name + " is not registered: no module would own " + (module ? "its parameters" : "it"),
           module ? "register it with register_module in the constructor"
                  : "register it with register_parameter or register_buffer in the constructor");
}

/// The known name with the smallest edit distance to `name`.
std::string nearest(const std::vector<std::string>& known, const std::string& name) {
  const auto distance = [&](const std::string& other) {
    std::vector<size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j <= other.size(); ++j) {
        const size_t replaced = diagonal + (name[i - 1] != other[j - 1]);
        diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
      }
    }
    return row.back();
  };
  return *std::ranges::min_element(known, {}, distance);
}

void check_entry(const FamilyModel& family, const Annotation& entry, std::vector<Finding>& findings) {
  std::vector<std::string> known;
  for (const KnownTask& task : family.known_tasks) known.push_back(task.name);
  if (entry.arguments.empty() || known.empty()) return;
  const std::string& task = entry.arguments[0];
  if (std::ranges::find(known, task) == known.end())
    report(findings, entry.where, "\"" + task + "\" is not a known task",
           "write MODEL_ENTRY(\"" + nearest(known, task) + "\"), or one of " + listed_parts(known));
  for (const std::string& text : entry.arguments)
    if (std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == '"' || c == '\\'; }))
      report(findings, entry.where, "the name contains a quote, a backslash or a control character",
             "write the class name as it stands in config.json");
}

/// Checks that the contract can read each field of `config` from config.json.
void check_config(const FamilyModel& family, const Class& config, std::vector<Finding>& findings) {
  const auto check_name = [&](const auto& member) {
    if (member.name == "fields")
      report(findings, member.where,
             "a config member cannot be named fields: the method that lists the fields has that name", "rename it");
  };
  std::ranges::for_each(config.functions, check_name);
  for (const Field& field : config.fields) {
    check_name(field);
    const auto& types = family.config_field_types;
    const bool is_read = is_config(family, field.canonical) ||
                         std::ranges::any_of(types, [&](const auto& type) { return type.first == field.canonical; });
    if (is_read && !field.is_const) continue;
    std::vector<std::string> names;
    for (const auto& [canonical, written] : types) names.push_back(written);
    report(
        findings, field.where,
        field.name + " is a " + (field.is_const ? "constant " : "") + field.type +
            ", which the runtime cannot read from config.json",
        (field.is_const ? "make a constant static constexpr; a field has type "
                        : "declare it with the type of the value in config.json, and convert it where it is used: ") +
            listed_parts(names) + " or another config");
  }
}

}  // namespace

void check_annotations(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    for (const Annotation& annotation : owner.annotations) {
      const bool is_entry = annotation.kind == AnnotationKind::entry;
      if ((is_entry || annotation.kind == AnnotationKind::fsdp_unit) && owner.holder.empty())
        report(findings, annotation.where,
               std::string(annotation_info(annotation.kind).macro) + " marks " + owner.name +
                   ", which is not a module class",
               "it can mark " + std::string(annotation_info(annotation.kind).fits));
      if (is_entry) check_entry(family, annotation, findings);
      if (concerns_runtime(annotation))
        report(findings, annotation.where, "a member annotation marks the class " + owner.name,
               "write it before the member");
    }
    for (const std::string& base : owner.library_modules)
      report(findings, owner.where, owner.name + " derives from " + base + ", whose parameters modgen does not see",
             "derive from Module, and hold a " + std::string(unqualified(base.substr(0, base.rfind("Impl")))) +
                 " as a member");
    if (owner.is_config) check_config(family, owner, findings);
    for (const Field& field : owner.fields) check_field(owner, field, findings);
  }
  for (const Class& owner : family.inner_classes) {
    for (const Field& field : owner.fields) check_unmarked(owner, field, findings);
    if (!owner.ambiguous_field.empty())
      report(findings, owner.where,
             owner.name + " and its bases have several members called " + owner.ambiguous_field +
                 ", which modgen does not distinguish",
             "rename one of them");
  }
}

}  // namespace modgen
