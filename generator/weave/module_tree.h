// Module tree of an entry as its constructors build it: ownership, registered names and sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/names.h"
#include "generator/weave/count.h"

namespace modgen {

/// Whether `expr` is the member `name` of `this`.
bool is_own_field(const Expr& expr, std::string_view name);

/// Whether two expressions of one function are written alike.
bool is_same(const Expr& one, const Expr& other);
const Annotation* find_annotation(const std::vector<Annotation>& annotations, AnnotationKind kind);
const Function* find_method(const Class& owner, std::string_view name, size_t arguments);

/// How a constructor initializes and registers a field.
struct Construction {
  enum class Registered { no, module, parameter, buffer };
  Registered registered = Registered::no;
  std::string name;             // registered name
  const Expr* value = nullptr;  // its initial value, without the registration call; null if the constructor sets none
  std::vector<const Expr*> others;  // the values that other branches of the constructor give it
};

Construction find_construction(const Class& owner, const Field& field);

struct ModuleNode {
  enum class Kind {
    family,     // a class of the family: `type`
    list,       // ModuleListOf: one child that represents every element
    one_of,     // OneOf: a child for each alternative, all with this node's path
    linear,     // libtorch's Linear, or the contract's TransposedLinear
    embedding,  // libtorch's Embedding
    module,     // any other module of libtorch
    parameter,  // a registered tensor
    buffer,     // a registered tensor without a gradient
  };
  Kind kind = Kind::family;
  std::string path;  // path from the entry, as in named_parameters(), with "*" for list elements; empty for the entry
  bool transposed = false;         // linear layers only: the weight is [in, out]
  std::string library_class = {};  // canonical type of a class outside the family: "torch::nn::Linear"
  const FamilyModel* family = nullptr;
  const Class* type = nullptr;
  const Field* field = nullptr;                       // null for the root; a list element has the list's field
  const ModuleNode* parent = nullptr;                 // null for the root
  const Expr* construction = nullptr;                 // `linear(…)`, `LlamaMLP(config)`, …, in the parent's constructor
  std::vector<const Expr*> others;                    // the constructions in other branches
  std::vector<std::unique_ptr<ModuleNode>> children;  // in field order

  const ModuleNode* child(std::string_view field_name) const;
  /// The nearest annotation of that kind on this module's field or on the field of an ancestor.
  const Annotation* inherited_annotation(std::string_view kind) const;
  /// Whether this module or a descendant has a parameter.
  bool holds_parameters() const;
  bool is_module() const { return kind != Kind::parameter && kind != Kind::buffer; }
  /// The nearest ancestor, or this node itself, whose class is an FSDP unit; the root if there is none.
  const ModuleNode* unit() const;
  /// "model.layers" + "." + name, or just the name under the root.
  std::string path_to(std::string_view name) const;
};

/// Whether a value of that C++ type is a config of the family.
bool is_config(const FamilyModel& family, std::string_view canonical);

/// Whether that C++ type is declared by the family.
bool is_family_type(const FamilyModel& family, std::string_view canonical);

/// The class of the family with that C++ type; null if there is none.
const Class* class_of_type(const FamilyModel& family, std::string_view canonical);

/// The class of the family whose holder has that C++ type; null if there is none.
const Class* find_class(const FamilyModel& family, std::string_view canonical);

/// Builds the module tree of `entry`. Fields that hold neither a tensor nor a module are omitted.
std::unique_ptr<ModuleNode> build_tree(const FamilyModel& family, const Class& entry);

/// Calls `visit` for `node` and its descendants, in field order.
template <class Visitor>
void for_each_node(const ModuleNode& node, Visitor&& visit) {
  visit(node);
  for (const auto& child : node.children) for_each_node(*child, visit);
}

/// The parameter of `node`'s class that `expr` names, perhaps with a method: `weight.to(type)`; null for anything else.
const ModuleNode* find_parameter(const ModuleNode& node, const Expr& expr);

/// Operands of the function `callee` that stack the matrices of a mixture's experts; empty for any other function.
std::vector<size_t> expert_operands(std::string_view callee);

/// The node whose class's constructor creates the children of `node`: a list or OneOf is filled by its parent.
const ModuleNode& constructing_node(const ModuleNode& node);

}  // namespace modgen
