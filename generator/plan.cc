#include "generator/plan.h"

#include <algorithm>
#include <array>
#include <set>

namespace modgen {
namespace {

using Kind = ModuleNode::Kind;

void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice) {
  const bool known = std::any_of(findings.begin(), findings.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings.push_back({true, where, std::move(message), std::move(advice), {}});
}

bool is_leaf_with_parameters(const ModuleNode& node) {
  return node.children.empty() && node.kind != Kind::family && node.kind != Kind::list && node.holds_parameters();
}

/// The arguments of `linear(…)`, `nn::Linear(…)` or the options inside of one, likewise for embeddings.
const std::vector<Expr>* layer_arguments(const Expr* construction) {
  if (!construction) return nullptr;
  if (construction->operands.size() >= 2 && construction->kind != Expr::Kind::method) return &construction->operands;
  for (const Expr& operand : construction->operands)
    if (const auto* found = layer_arguments(&operand)) return found;
  return nullptr;
}

/// Whether the layer can have a bias: not where its constructor is told so by a literal.
bool may_have_bias(const ModuleNode& linear) {
  if (!linear.construction || linear.construction->kind != Expr::Kind::call || linear.construction->operands.size() < 3)
    return true;
  const Expr& bias = linear.construction->operands[2];
  return !(bias.kind == Expr::Kind::literal && bias.name == "false");
}

class Planner {
 public:
  Planner(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings)
      : family_(family), root_(root), findings_(findings) {}

  EntryPlan derive() {
    plan_.entry = root_.type->holder;
    if (const Annotation* entry = find_annotation(root_.type->annotations, "entry"); entry && !entry->arguments.empty())
      plan_.task = entry->arguments[0];
    find_config();
    for_each_node(root_, [&](const ModuleNode& node) { add(node); });
    if (!plan_.split_list.empty())
      check_stages();
    else
      check_no_stages();
    return std::move(plan_);
  }

 private:
  void find_config() {
    for (const Function& function : root_.type->functions) {
      if (!function.is_constructor) continue;
      for (const Parameter& parameter : function.parameters)
        for (const Class& candidate : family_.classes)
          if (candidate.is_config && parameter.type.find(candidate.name) != std::string::npos)
            plan_.config = candidate.name;
    }
    if (plan_.config.empty())
      report(findings_, root_.type->where, "an entry whose constructor takes no config",
             "give it a constructor from the family's config");
  }

  void add(const ModuleNode& node) {
    if (node.type && node.parent && find_annotation(node.type->annotations, "fsdp_unit") && node.holds_parameters())
      plan_.units.push_back(node.path);
    if (node.type) add_counts(node);
    if (!node.field || (node.parent && (node.parent->kind == Kind::list || node.parent->kind == Kind::one_of)))
      return;  // a list's annotations are its elements'
    const std::vector<Annotation>& annotations = node.field->annotations;
    if (find_annotation(annotations, "pp_first")) plan_.first.push_back(node.path);
    if (find_annotation(annotations, "pp_last")) plan_.last.push_back(node.path);
    if (const Annotation* split = find_annotation(annotations, "pp_split")) {
      if (!plan_.split_list.empty())
        report(findings_, split->where, "a second PP_SPLIT list, " + node.path + " beside " + plan_.split_list,
               "a pipeline cuts one list: mark one of them");
      plan_.split_list = node.path;
    }
    if (node.kind == Kind::linear) {
      if (find_annotation(annotations, "tp_colwise") || find_annotation(annotations, "tp_vocab")) {
        split(node, "weight", 0, /*argument=*/1);
        if (may_have_bias(node)) split(node, "bias", 0, 1);
      } else if (find_annotation(annotations, "tp_rowwise")) {
        split(node, "weight", 1, 0);
      }
    } else if (node.kind == Kind::embedding && find_annotation(annotations, "tp_vocab")) {
      split(node, "weight", 0, 0);
    }
    if (const Annotation* tied = find_annotation(annotations, "tied_to")) tie(node, *tied);
  }

  /// A layer's parameter that is split along `dim`, whose size is the constructor's argument.
  void split(const ModuleNode& layer, const char* parameter, int64_t dim, size_t argument) {
    plan_.tensor_splits.push_back({layer.path_of(parameter), dim});
    const std::vector<Expr>* arguments = layer_arguments(layer.construction);
    const Size size = arguments && argument < arguments->size() ? trace_size(*layer.parent, (*arguments)[argument])
                                                                : Size{{}, {}, {}, false};
    divide(size, layer.field->where, "the split size of " + layer.path);
  }

  void add_counts(const ModuleNode& node) {
    for (const Field& field : node.type->fields) {
      if (!find_annotation(field.annotations, "tp_local")) continue;
      const Construction construction = construction_of(*node.type, field);
      divide(construction.value ? trace_size(node, *construction.value) : Size{{}, {}, {}, false}, field.where,
             "the count " + field.name);
    }
  }

  void divide(const Size& size, SourceSpan where, const std::string& what) {
    const std::vector<std::string>& fields = size.local_fields.empty() ? size.config_fields : size.local_fields;
    if (!size.known || fields.empty() || (size.local_fields.empty() && fields.size() > 1)) {
      report(
          findings_, where, "unproven: " + what + " cannot be traced to one field of the config that tp has to divide",
          "make it of a config field in the constructor; where it is a product, mark the count that is split TP_LOCAL");
      return;
    }
    for (const std::string& field : fields) {
      const bool known = std::any_of(plan_.divides.begin(), plan_.divides.end(),
                                     [&](const EntryPlan::Divides& d) { return d.field == field; });
      if (!known) plan_.divides.push_back({field, "tp"});
    }
  }

  static const char* layout(const ModuleNode& layer) {
    const std::vector<Annotation>& annotations = layer.field->annotations;
    if (find_annotation(annotations, "tp_colwise") || find_annotation(annotations, "tp_vocab"))
      return "split over tp along dimension 0";
    return find_annotation(annotations, "tp_rowwise") ? "split over tp along dimension 1" : "whole on every tp rank";
  }

  void tie(const ModuleNode& node, const Annotation& tied) {
    const std::string expression = tied.arguments.empty() ? std::string() : tied.arguments[0];
    const TiedParameter source = find_tied(*node.parent, expression);
    if (!source.layer)
      return report(findings_, tied.where, "TIED_TO names no parameter: " + expression,
                    "name one of this class's members, as in TIED_TO(model->embed_tokens->weight)");
    if (std::string(layout(node)) != layout(*source.layer))
      return report(findings_, tied.where,
                    node.path + " is " + layout(node) + ", and " + source.path + ", which it is tied to, is " +
                        layout(*source.layer),
                    "annotate both alike");
    if (node.unit() != source.layer->unit())
      return report(findings_, tied.where,
                    node.path + " and " + source.path + ", which it is tied to, belong to different FSDP units",
                    "keep tied parameters in one unit");
    plan_.ties.push_back({node.kind == Kind::parameter ? node.path : node.path_of("weight"), source.path, kTieFlag});
  }

  /// Every parameter belongs to one stage.
  void check_stages() {
    for_each_node(root_, [&](const ModuleNode& node) {
      if (!is_leaf_with_parameters(node)) return;
      const std::array kinds = {"pp_first", "pp_split", "pp_last"};
      for (const ModuleNode* at = &node; at && at->field; at = at->parent) {
        std::vector<const char*> found;
        for (const char* kind : kinds)
          if (find_annotation(at->field->annotations, kind)) found.push_back(kind);
        if (!found.empty()) return;
      }
      report(findings_, node.field->where, "the parameters of " + node.path + " belong to no pipeline stage",
             "mark it, or a module that holds it, PP_FIRST or PP_LAST");
    });
  }

  void check_no_stages() {
    for_each_node(root_, [&](const ModuleNode& node) {
      if (!node.field) return;
      for (const char* kind : {"pp_first", "pp_last"})
        if (const Annotation* stage = find_annotation(node.field->annotations, kind))
          report(findings_, stage->where,
                 node.field->name + " is marked for a pipeline stage, but there is no PP_SPLIT list to cut",
                 "mark the list of layers PP_SPLIT");
    });
  }

  const FamilyModel& family_;
  const ModuleNode& root_;
  std::vector<Finding>& findings_;
  EntryPlan plan_;
};

bool is_integer(const std::string& type) {
  return type == "int64_t" || type == "int" || type == "const int64_t" || type == "size_t";
}

bool is_layer_type(const std::string& type, std::string_view layer) {
  return type.ends_with("nn::" + std::string(layer)) ||
         type.find("ModuleListOf<nn::" + std::string(layer) + ">") != std::string::npos;
}

bool is_module_type(const FamilyModel& family, const std::string& type) {
  if (type.starts_with("nn::") || type.starts_with("torch::nn::") || type.starts_with("ModuleListOf<")) return true;
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
      {"tp_vocab", "TP_VOCAB", linear || embedding, "an embedding or a linear layer"},
      {"tp_local", "TP_LOCAL", is_integer(field.type), "an integer field"},
      {"pp_first", "PP_FIRST", module || field.type == "Tensor", "a module or a parameter"},
      {"pp_last", "PP_LAST", module || field.type == "Tensor", "a module or a parameter"},
      {"pp_split", "PP_SPLIT", list, "a ModuleListOf"},
      {"tied_to", "TIED_TO", linear || embedding || field.type == "Tensor",
       "a linear layer, an embedding or a parameter"},
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
    const bool is_split =
        annotation.kind == "tp_colwise" || annotation.kind == "tp_rowwise" || annotation.kind == "tp_vocab";
    const bool is_stage =
        annotation.kind == "pp_first" || annotation.kind == "pp_split" || annotation.kind == "pp_last";
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

EntryPlan derive_plan(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings) {
  return Planner(family, root, findings).derive();
}

void check_annotations(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    for (const Annotation& annotation : owner.annotations) {
      const bool for_modules = annotation.kind == "fsdp_unit" || annotation.kind == "entry";
      if (for_modules && owner.holder.empty())
        report(findings, annotation.where,
               (annotation.kind == "entry" ? "MODEL_ENTRY marks " : "FSDP_UNIT marks ") + owner.name +
                   ", which is no module class",
               "it can mark a module class");
      if (annotation.kind.starts_with("tp_") || annotation.kind.starts_with("pp_") || annotation.kind == "tied_to")
        report(findings, annotation.where, "a member's annotation marks the class " + owner.name,
               "write it before the member");
    }
    for (const Field& field : owner.fields) check_field(family, owner, field, findings);
  }
}

TiedParameter find_tied(const ModuleNode& owner, const std::string& expression) {
  const ModuleNode* node = &owner;
  std::string_view rest = expression;
  while (!rest.empty()) {
    const size_t end = rest.find_first_of(".-");
    const std::string_view name = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + (rest[end] == '-' ? 2 : 1));
    const ModuleNode* child = node->child(name);
    if (child) {
      node = child;
      if (rest.empty() && node->kind == Kind::parameter) return {node, node->path};
      continue;
    }
    const bool is_layer = node->kind == Kind::linear || node->kind == Kind::embedding;
    if (rest.empty() && is_layer && (name == "weight" || (name == "bias" && node->kind == Kind::linear)))
      return {node, node->path_of(name)};
    return {};
  }
  return {};
}

}  // namespace modgen
