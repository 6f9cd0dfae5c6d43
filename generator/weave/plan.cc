#include "generator/weave/plan.h"

#include <algorithm>
#include <set>

#include "generator/weave/partition.h"
#include "generator/weave/pipeline.h"

namespace modgen {
namespace {

using Kind = ModuleNode::Kind;

bool is_leaf_with_parameters(const ModuleNode& node) {
  return node.children.empty() && node.kind != Kind::family && node.kind != Kind::list && node.holds_parameters();
}

/// Whether the layer can have a bias: always, unless its constructor passes the literal `false`.
bool may_have_bias(const ModuleNode& linear) {
  if (!linear.construction || linear.construction->kind != Expr::Kind::call || linear.construction->operands.size() < 3)
    return true;
  const Expr& bias = linear.construction->operands[2];
  return !(bias.kind == Expr::Kind::literal && bias.name == "false");
}

class Planner {
 public:
  Planner(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings)
      : family_(family), root_(root), findings_(findings), stacks_(find_stacks(root)) {}

  EntryPlan derive() {
    plan_.entry = root_.type->holder;
    plan_.architecture = plan_.entry;
    if (const Annotation* entry = find_annotation(root_.type->annotations, AnnotationKind::entry)) {
      if (!entry->arguments.empty()) plan_.task = entry->arguments[0];
      if (entry->arguments.size() > 1) plan_.architecture = entry->arguments[1];
    }
    find_config();
    plan_.stacks.resize(stacks_.exist ? 2 : 1);
    for_each_node(root_, [&](const ModuleNode& node) { add(node); });
    add_parameter_facts(root_, plan_);
    for (EntryPlan::Divides& rule : plan_.divides)
      if (vocabularies_.contains(rule.field) && !counts_.contains(rule.field)) rule.otherwise = "uneven";
    if (stacks_.exist || !plan_.stacks[0].split_list.empty()) {
      check_stages();
    } else {
      check_no_stages();
      plan_.stacks.clear();
    }
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
      report(findings_, root_.type->where, "the entry's constructor takes no config",
             "add a constructor that takes the family's config");
  }

  void add(const ModuleNode& node) {
    if (node.type && node.parent && find_annotation(node.type->annotations, AnnotationKind::fsdp_unit) &&
        node.holds_parameters())
      plan_.units.push_back(node.path);
    if (node.type) add_counts(node);
    if (!node.field || (node.parent && (node.parent->kind == Kind::list || node.parent->kind == Kind::one_of)))
      return;  // list elements inherit the list's annotations
    const std::vector<Annotation>& annotations = node.field->annotations;
    if (const StagePosition position = find_stage_position(node, stacks_); position.marked == node.field)
      add_to_stages(node, position);
    if (node.kind == Kind::linear || node.kind == Kind::embedding) split(node, "weight");
    if (node.kind == Kind::linear && may_have_bias(node)) split(node, "bias");
    if (node.kind == Kind::parameter || node.kind == Kind::buffer) split(node, "");
    if (node.kind == Kind::module && node.holds_parameters())
      for (const char* parameter : {"weight", "bias"}) hold(node, node.path_to(parameter), {});
    for (const Annotation& annotation : annotations) {
      if (annotation.kind == AnnotationKind::tied_to && annotation.arguments.size() == 1)
        tie(annotation, node.kind == Kind::parameter ? TiedParameter{&node, node.path} : find_tied(node, "weight"),
            find_tied(*node.parent, annotation.arguments[0]));
      if (annotation.kind == AnnotationKind::ties && annotation.arguments.size() == 2)
        tie(annotation, find_tied(node, inside(annotation.arguments[0])),
            find_tied(*node.parent, annotation.arguments[1]));
    }
  }

  void add_to_stages(const ModuleNode& node, const StagePosition& position) {
    EntryPlan::Stack& stack = plan_.stacks[position.stack];
    if (position.kind == AnnotationKind::pp_first) stack.first.push_back(node.path);
    if (position.kind == AnnotationKind::pp_last) stack.last.push_back(node.path);
    if (position.kind == AnnotationKind::pp_all && position.in != node.field) plan_.everywhere.push_back(node.path);
    if (position.kind != AnnotationKind::pp_split) return;
    if (!stack.split_list.empty())
      report(findings_, find_annotation(node.field->annotations, AnnotationKind::pp_split)->where,
             "a second PP_SPLIT list, " + node.path + " in addition to " + stack.split_list,
             stacks_.exist ? "a pipeline cuts one list of each stack: mark only one of them"
                           : "a pipeline cuts one list: mark only one of them");
    stack.split_list = node.path;
  }

  /// Adds the tensor-parallel split of a layer's parameter, or of the parameter or buffer `layer` itself.
  void split(const ModuleNode& layer, const std::string& parameter) {
    const Partition partition = find_partition(layer, parameter);
    const std::string path = parameter.empty() ? layer.path : layer.path_to(parameter);
    hold(layer, path, partition);
    if (!partition.dim) return;
    EntryPlan::Split split{path, *partition.dim, {}};
    for (const Size& part : partition.parts) {
      const Count::Term* product = part.count.product();
      divide(product ? part : Size(), layer.field->where, "a part of " + layer.path, counts_);
      split.parts.push_back(product ? written_text(*product) : "");
    }
    // A layer size that is a number or not a product adds no rule to the plan: the runtime checks the size of every
    // split parameter against the mesh before a rank starts.
    const Size size = split_size(layer, *partition.dim);
    const bool has_fields = size.count.product() && !size.count.literal();
    const bool is_vocabulary = split_annotation(layer.field->annotations)->kind == AnnotationKind::tp_vocab;
    std::set<std::string> ignored;
    if (partition.parts.empty() && (has_fields || parameter.empty()))
      divide(size, layer.field->where, "the split size of " + layer.path, is_vocabulary ? vocabularies_ : ignored);
    // Alternatives of a OneOf may have parameters of the same name.
    if (std::ranges::find(plan_.tensor_splits, split) == plan_.tensor_splits.end())
      plan_.tensor_splits.push_back(std::move(split));
  }

  struct Held {
    std::string path;
    std::string layout;  // for messages
    const ModuleNode* layer;
  };

  /// The alternative of `choice`, a OneOf, that `node` belongs to.
  static std::string alternative_of(const ModuleNode& node, const ModuleNode& choice) {
    const ModuleNode* at = &node;
    while (at->parent != &choice) at = at->parent;
    return at->type ? at->type->holder : at->library_class;
  }

  /// Reports a parameter of two modules, such as the alternatives of a OneOf, that they split differently: the plan has
  /// one row for its name.
  void hold(const ModuleNode& layer, const std::string& path, const Partition& partition) {
    Held held{path, describe(Value::tensor(to_type(partition), false, std::nullopt)), &layer};
    const auto other = std::ranges::find_if(held_, [&](const Held& one) { return is_same_name(one.path, path); });
    const auto* const before = other == held_.end() ? nullptr : &*other;
    if (before && before->layout != held.layout) {
      const ModuleNode* choice = layer.parent;
      while (choice && (choice->kind != Kind::one_of || !is_below(*before->layer, *choice))) choice = choice->parent;
      const std::string name = choice ? path.substr(choice->path.size() + 1) : path;
      report(findings_, choice ? choice->field->where : layer.field->where,
             name + " is " + before->layout + (choice ? " in " + alternative_of(*before->layer, *choice) : "") +
                 ", and " + held.layout + (choice ? " in " + alternative_of(layer, *choice) : " here") +
                 ": the plan splits a parameter of one name in one way",
             "annotate both the same way, or register them under different names");
    }
    held_.push_back(std::move(held));
  }

  static bool is_below(const ModuleNode& node, const ModuleNode& ancestor) {
    const ModuleNode* at = &node;
    while (at && at != &ancestor) at = at->parent;
    return at != nullptr;
  }

  /// Whether two paths may name one parameter; "*" stands for any component.
  static bool is_same_name(std::string_view one, std::string_view other) {
    while (!one.empty() && !other.empty()) {
      const std::string_view a = one.substr(0, one.find('.')), b = other.substr(0, other.find('.'));
      if (a != b && a != "*" && b != "*") return false;
      one.remove_prefix(std::min(a.size() + 1, one.size()));
      other.remove_prefix(std::min(b.size() + 1, other.size()));
    }
    return one.empty() && other.empty();
  }

  void add_counts(const ModuleNode& node) {
    for (const Field& field : node.type->fields) {
      if (!find_annotation(field.annotations, AnnotationKind::tp_local)) continue;
      const Construction construction = find_construction(*node.type, field);
      divide(construction.value && !field.varies ? trace_size(node, *construction.value) : Size(), field.where,
             "the count " + field.name, counts_);
    }
  }

  /// Adds the fields that tp has to divide to the plan and to `kind`.
  void divide(const Size& size, SourceSpan where, const std::string& what, std::set<std::string>& kind) {
    // If a count among the factors is split, the other factors are unrestricted.
    std::vector<std::string> fields = size.local_fields;
    const Count::Term* product = size.count.product();
    if (fields.empty() && product && !product->fields.empty()) fields = {written_text({1, product->fields})};
    if (fields.empty()) {
      report(findings_, where, "unproven: " + what + " cannot be traced to fields of the config that tp has to divide",
             "compute it from config fields in the constructor, as one field or a product; if it counts heads, mark "
             "their count TP_LOCAL");
      return;
    }
    for (const std::string& field : fields) {
      kind.insert(field);
      const bool known = std::any_of(plan_.divides.begin(), plan_.divides.end(),
                                     [&](const EntryPlan::Divides& d) { return d.field == field; });
      if (!known) plan_.divides.push_back({field, "tp"});
    }
  }

  static bool has_field(const Class& config, std::string_view name) {
    return std::any_of(config.fields.begin(), config.fields.end(),
                       [&](const Field& field) { return field.name == name; });
  }

  static std::string layout(const TiedParameter& parameter) {
    const std::string name = parameter.path.substr(parameter.path.rfind('.') + 1);
    const Partition partition =
        find_partition(*parameter.layer, parameter.layer->kind == Kind::parameter ? std::string() : name);
    return describe(Value::tensor(to_type(partition), false, std::nullopt));
  }

  void tie(const Annotation& annotation, const TiedParameter& tied, const TiedParameter& source) {
    const bool is_inner = annotation.kind == AnnotationKind::ties;
    for (const auto* end : {&tied, &source})
      if (!end->layer)
        return report(findings_, annotation.where,
                      std::string(is_inner ? "TIES" : "TIED_TO") +
                          " names no parameter: " + annotation.arguments[is_inner && end == &source ? 1 : 0],
                      is_inner && end == &tied
                          ? "name one in the marked module, as in TIES(HeadImpl::decoder->weight, embed->weight)"
                          : "name one of this class's members, as in TIED_TO(model->embed_tokens->weight)");
    if (layout(tied) != layout(source))
      return report(
          findings_, annotation.where,
          tied.path + " is " + layout(tied) + ", and " + source.path + ", which it is tied to, is " + layout(source),
          "annotate both the same way");
    if (tied.layer->unit() != source.layer->unit())
      return report(findings_, annotation.where,
                    tied.path + " and " + source.path + ", which it is tied to, belong to different FSDP units",
                    "keep tied parameters in one unit");
    const StagePosition tied_stage = find_stage_position(*tied.layer, stacks_),
                        source_stage = find_stage_position(*source.layer, stacks_);
    const auto is_end = [](const StagePosition& position) {
      return position.kind == AnnotationKind::pp_all ||
             (position.stack == 0 ? position.kind == AnnotationKind::pp_first
                                  : position.kind == AnnotationKind::pp_last);
    };
    if (stacks_.exist && !(is_end(tied_stage) && is_end(source_stage)) &&
        (tied_stage.stack != source_stage.stack || tied_stage.kind != source_stage.kind))
      return report(findings_, annotation.where,
                    tied.path + " and " + source.path + ", which it is tied to, are held by different stages, one of " +
                        "which is neither the first nor the last",
                    "mark one of them PP_ALL");
    for (const Class& candidate : family_.classes)
      if (candidate.name == plan_.config && !has_field(candidate, kTieFlag))
        return report(
            findings_, annotation.where,
            tied.path + " is tied if the config's " + kTieFlag + " is set, but " + plan_.config + " has no such field",
            std::string("add bool ") + kTieFlag + " to the config, or remove the tie");
    plan_.ties.push_back({tied.path, source.path, kTieFlag});
  }

  /// Checks that every parameter belongs to one stage.
  void check_stages() {
    for_each_node(root_, [&](const ModuleNode& node) {
      if (!is_leaf_with_parameters(node)) return;
      if (find_stage_position(node, stacks_).kind != AnnotationKind::none) return;
      report(findings_, node.field->where, "the parameters of " + node.path + " belong to no pipeline stage",
             "mark it, or a module that contains it, PP_FIRST, PP_LAST or PP_ALL");
    });
  }

  void check_no_stages() {
    for_each_node(root_, [&](const ModuleNode& node) {
      if (!node.field) return;
      for (const AnnotationKind kind : {AnnotationKind::pp_first, AnnotationKind::pp_last, AnnotationKind::pp_all})
        if (const Annotation* stage = find_annotation(node.field->annotations, kind))
          report(findings_, stage->where,
                 node.field->name +
                     " is marked for a pipeline stage, but the model has neither a PP_SPLIT list to cut nor two stacks "
                     "to cut between",
                 "mark the list of layers PP_SPLIT; or of two modules that hold lists of layers, mark one PP_FIRST and "
                 "the other PP_LAST");
    });
  }

  const FamilyModel& family_;
  const ModuleNode& root_;
  std::vector<Finding>& findings_;
  const Stacks stacks_;
  std::vector<Held> held_;  // parameters and buffers so far
  EntryPlan plan_;
  std::set<std::string> vocabularies_, counts_;  // fields that are split by vocabulary, and by heads or within parts
};

}  // namespace

EntryPlan derive_plan(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings) {
  return Planner(family, root, findings).derive();
}

std::string inside(const std::string& expression) { return expression.substr(expression.rfind("::") + 2); }

TiedParameter find_tied(const ModuleNode& owner, std::string_view expression) {
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
      return {node, node->path_to(name)};
    return {};
  }
  return {};
}

}  // namespace modgen
