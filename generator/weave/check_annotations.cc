// Each annotation against what it marks.
#include <algorithm>

#include "generator/weave/plan.h"

namespace modgen {
namespace {

void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice) {
  const bool known = std::any_of(findings.begin(), findings.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings.push_back({true, where, std::move(message), std::move(advice), {}});
}

bool is_integer(const std::string& type) {
  return type == "int64_t" || type == "int" || type == "const int64_t" || type == "size_t";
}

bool is_layer_type(const std::string& type, std::string_view layer) {
  if (layer == "Linear" && unqualified(type) == "TransposedLinear") return true;
  return type.ends_with("nn::" + std::string(layer)) ||
         type.find("ModuleListOf<nn::" + std::string(layer) + ">") != std::string::npos;
}

bool is_module_type(const FamilyModel& family, const std::string& type) {
  if (type.starts_with("nn::") || type.starts_with("torch::nn::") || type.starts_with("ModuleListOf<") ||
      type == "TransposedLinear" || type.ends_with("LayerNorm"))
    return true;
  return std::any_of(family.classes.begin(), family.classes.end(),
                     [&](const Class& c) { return !c.holder.empty() && c.holder == type; });
}

void check_field(const FamilyModel& family, const Class& owner, const Field& field, std::vector<Finding>& findings) {
  const bool linear = is_layer_type(field.type, "Linear"), embedding = is_layer_type(field.type, "Embedding");
  const bool module = is_module_type(family, field.type);
  const bool list = field.type.starts_with("ModuleListOf<");
  struct Rule {
    const char* kind;
    const char* macro;
    bool fits;
    const char* wants;
  };
  const Rule rules[] = {
      {"tp_colwise", "TP_COLWISE", linear, "a linear layer"},
      {"tp_rowwise", "TP_ROWWISE", linear, "a linear layer"},
      {"tp_vocab", "TP_VOCAB", linear || embedding || field.type == "Tensor",
       "an embedding, a linear layer or a parameter"},
      {"tp_colwise_parts", "TP_COLWISE_PARTS", linear, "a linear layer"},
      {"tp_shard", "TP_SHARD", embedding || field.type == "Tensor", "an embedding or a parameter"},
      {"tp_local", "TP_LOCAL", is_integer(field.type), "an integer field"},
      {"pp_first", "PP_FIRST", module || field.type == "Tensor", "a module or a parameter"},
      {"pp_last", "PP_LAST", module || field.type == "Tensor", "a module or a parameter"},
      {"pp_all", "PP_ALL", module || field.type == "Tensor", "a module or a parameter"},
      {"pp_split", "PP_SPLIT", list, "a ModuleListOf"},
      {"tied_to", "TIED_TO", linear || embedding || field.type == "Tensor",
       "a linear layer, an embedding or a parameter"},
      {"ties", "TIES", module, "a module"},
      {"fsdp_unit", "FSDP_UNIT", false, "a module class"},
      {"entry", "MODEL_ENTRY", false, "a module class"},
  };
  const Annotation* split = nullptr;
  const Annotation* stage = nullptr;
  for (const Annotation& annotation : field.annotations) {
    for (const Rule& rule : rules)
      if (annotation.kind == rule.kind && !rule.fits)
        report(findings, annotation.where, std::string(rule.macro) + " marks " + field.name + ", a " + field.type,
               std::string("it can mark ") + rule.wants);
    const bool is_split = annotation.kind.starts_with("tp_") && annotation.kind != "tp_local";
    const bool is_stage = annotation.kind == "pp_first" || annotation.kind == "pp_split" ||
                          annotation.kind == "pp_last" || annotation.kind == "pp_all";
    for (auto [matches, before] : {std::pair{is_split, &split}, std::pair{is_stage, &stage}}) {
      if (!matches) continue;
      if (*before)
        report(findings, annotation.where, field.name + " has two annotations of one kind, which say different things",
               "keep one of them");
      *before = &annotation;
    }
  }
  if (owner.holder.empty()) return;
  const Construction construction = construction_of(owner, field);
  if ((module || field.type == "Tensor") && construction.registered == Construction::Registered::no)
    report(findings, field.where,
           field.name + " is not registered: nothing would own " + (module ? "its parameters" : "it"),
           module ? "make it with register_module in the constructor"
                  : "make it with register_parameter or register_buffer in the constructor");
}

}  // namespace

void check_annotations(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    for (const Annotation& annotation : owner.annotations) {
      const bool for_modules = annotation.kind == "fsdp_unit" || annotation.kind == "entry";
      if (for_modules && owner.holder.empty())
        report(findings, annotation.where,
               (annotation.kind == "entry" ? "MODEL_ENTRY marks " : "FSDP_UNIT marks ") + owner.name +
                   ", which is no module class",
               "it can mark a module class");
      if (annotation.kind.starts_with("tp_") || annotation.kind.starts_with("pp_") || annotation.kind == "tied_to" ||
          annotation.kind == "ties")
        report(findings, annotation.where, "a member's annotation marks the class " + owner.name,
               "write it before the member");
    }
    for (const Field& field : owner.fields) check_field(family, owner, field, findings);
  }
}

}  // namespace modgen
