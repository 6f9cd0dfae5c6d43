#include "generator/weave/weave.h"

#include <algorithm>

#include "generator/weave/module_tree.h"
#include "generator/weave/partition.h"
#include "generator/weave/pipeline.h"
#include "generator/weave/trace.h"

namespace modgen {

namespace {

using Kind = ModuleNode::Kind;
using Shape = std::optional<std::vector<std::string>>;

class Layouts {
 public:
  Layouts(const FamilyModel& family, const EntryPlan& plan) : family_(family), plan_(plan) {}

  std::vector<ParameterLayout> make() {
    for (const Class& entry : family_.classes) {
      if (entry.holder != plan_.entry) continue;
      const auto root = build_tree(family_, entry);
      stacks_ = find_stacks(*root);
      for_each_node(*root, [&](const ModuleNode& node) { add(node); });
    }
    return std::move(layouts_);
  }

 private:
  void add(const ModuleNode& node) {
    const std::vector<Expr>* arguments = layer_arguments(node.construction);
    const auto size = [&](size_t index) {
      return arguments && index < arguments->size() ? get_text(*node.parent, (*arguments)[index]) : std::string("?");
    };
    switch (node.kind) {
      case Kind::linear:
        add(node, "weight", Shape({size(node.transposed ? 0 : 1), size(node.transposed ? 1 : 0)}), "");
        if (const std::string where = bias_where(node); where != "false") add(node, "bias", Shape({size(1)}), where);
        break;
      case Kind::embedding:
        add(node, "weight", Shape({size(0), size(1)}), "");
        break;
      case Kind::parameter:
        add(node, "", raw_shape(node), "");
        break;
      case Kind::module:
        add_library_module(node, size);
        break;
      case Kind::family:
      case Kind::list:
      case Kind::one_of:
      case Kind::buffer:
        break;
    }
  }

  template <class SizeAt>
  void add_library_module(const ModuleNode& node, const SizeAt& size) {
    if (!node.holds_parameters()) return;
    const bool is_norm = unqualified(node.library_class) == "LayerNorm";
    const Shape shape = is_norm ? Shape({size(0)}) : std::nullopt;
    add(node, "weight", shape, "");
    if (const std::string where = is_norm ? get_flag(node, 2) : ""; where != "false") add(node, "bias", shape, where);
  }

  void add(const ModuleNode& node, const std::string& parameter, Shape shape, std::string where) {
    ParameterLayout layout;
    layout.name = parameter.empty() ? node.path : node.path_to(parameter);
    layout.module = parameter.empty() ? node.parent->path : node.path;
    layout.type = node.field->type;
    layout.shape = std::move(shape);
    layout.only_where = std::move(where);
    for (const ModuleNode* at = &node; at->parent; at = at->parent)
      if (at->parent->kind == Kind::one_of && at->type) layout.only_where = at->path + " is a " + at->type->holder;
    layout.unit = node.unit()->path;
    // The layout is read from the plan that the generated file contains, never derived a second time.
    for (const EntryPlan::Split& split : plan_.tensor_splits)
      if (split.parameter == layout.name) layout.dim = split.dim, layout.parts = split.parts;
    for (const EntryPlan::Tie& tie : plan_.ties)
      if (tie.parameter == layout.name) layout.tied_to = tie.source, layout.flag = tie.flag;
    if (const AnnotationKind kind = find_stage_position(node, stacks_).kind;
        !plan_.stacks.empty() && kind != AnnotationKind::none)
      layout.stage = annotation_info(kind).name.substr(std::string_view("pp_").size());
    layouts_.push_back(std::move(layout));
  }

  /// The constructor expression that decides whether the layer has a bias; "" if it always has one.
  std::string bias_where(const ModuleNode& node) const {
    return node.construction && node.construction->kind == Expr::Kind::call ? get_flag(node, 2) : "";
  }

  std::string get_flag(const ModuleNode& node, size_t index) const {
    const std::vector<Expr>* arguments = layer_arguments(node.construction);
    if (!arguments || index >= arguments->size()) return "";
    const Expr& flag = (*arguments)[index];
    const std::string text = flag.kind == Expr::Kind::literal ? flag.name : get_text(*node.parent, flag);
    return text == "true" ? "" : text;
  }

  /// Shape of a parameter that is constructed as `torch::ones({size})`.
  Shape raw_shape(const ModuleNode& node) const {
    const std::vector<Expr>* arguments = layer_arguments(node.construction);
    if (!arguments || arguments->empty() || (*arguments)[0].kind != Expr::Kind::list) return std::nullopt;
    std::vector<std::string> shape;
    for (const Expr& size : (*arguments)[0].operands) shape.push_back(get_text(*node.parent, size));
    return shape;
  }

  std::string get_text(const ModuleNode& node, const Expr& expr) const {
    const Count size = trace_size(node, expr).count;
    if (const std::optional<int64_t> literal = size.literal()) return std::to_string(*literal);
    return size.product() ? written_text(*size.product())
                          : family_.text.substr(expr.span.begin, expr.span.end - expr.span.begin);
  }

  const FamilyModel& family_;
  const EntryPlan& plan_;
  Stacks stacks_;
  std::vector<ParameterLayout> layouts_;
};

}  // namespace

std::vector<ParameterLayout> get_layout(const FamilyModel& family, const EntryPlan& plan) {
  return Layouts(family, plan).make();
}

}  // namespace modgen
