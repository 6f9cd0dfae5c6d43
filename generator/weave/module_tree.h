// The modules of an entry as its constructors build them: what holds what, under which registered names, of which
// sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/names.h"

namespace modgen {

const Annotation* find_annotation(const std::vector<Annotation>& annotations, std::string_view kind);
const Function* find_method(const Class& owner, std::string_view name, size_t arguments);
const Function* find_constructor(const Class& owner, size_t arguments);

/// How a constructor makes a field.
struct Construction {
  enum class Registered { no, module, parameter, buffer };
  Registered registered = Registered::no;
  std::string name;             // under which it is registered
  const Expr* value = nullptr;  // what it is set to, registration seen through; null where the constructor does not say
};

Construction find_construction(const Class& owner, const Field& field);

struct ModuleNode {
  enum class Kind {
    family,     // a class of the family: `type`
    list,       // ModuleListOf: one child that stands for every element
    one_of,     // OneOf: a child for each alternative, all of them with its path
    linear,     // libtorch's Linear, or the contract's TransposedLinear
    embedding,  // libtorch's Embedding
    module,     // any other module of libtorch
    parameter,  // a registered tensor
    buffer,     // a registered tensor without a gradient
  };
  Kind kind = Kind::family;
  std::string path;  // from the entry, as named_parameters() spells it, "*" for every element of a list; empty for the
                     // entry itself
  bool transposed = false;         // of a linear layer: its weight is [in, out]
  std::string library_class = {};  // of what is not a class of the family: "torch::nn::Linear"
  const FamilyModel* family = nullptr;
  const Class* type = nullptr;
  const Field* field = nullptr;                       // null for the root; a list's element has the list's field
  const ModuleNode* parent = nullptr;                 // null for the root
  const Expr* construction = nullptr;                 // `linear(…)`, `LlamaMLP(config)`, …, in the parent's constructor
  std::vector<std::unique_ptr<ModuleNode>> children;  // in the order of the fields

  const ModuleNode* child(std::string_view field_name) const;
  /// The nearest annotation of that kind on this module's field, or on the field of one that holds it.
  const Annotation* inherited_annotation(std::string_view kind) const;
  /// Whether this or a module within it has a parameter.
  bool holds_parameters() const;
  bool is_module() const { return kind != Kind::parameter && kind != Kind::buffer; }
  /// The module that holds this one and whose class is a unit of sharding, itself included; the root where there is
  /// none.
  const ModuleNode* unit() const;
  /// "model.layers" + "." + name, or just the name under the root.
  std::string path_to(std::string_view name) const;
};

/// Whether a value of that C++ type is a config of the family.
bool is_config(const FamilyModel& family, std::string_view canonical);

/// The class of the family that has that C++ type itself; null where there is none.
const Class* class_of_type(const FamilyModel& family, std::string_view canonical);

/// The class of the family whose holder has that C++ type; null where there is none.
const Class* find_class(const FamilyModel& family, std::string_view canonical);

/// The tree of `entry`. Fields that hold no tensor and no module are left out.
std::unique_ptr<ModuleNode> build_tree(const FamilyModel& family, const Class& entry);

/// Calls `visit` for `node` and everything in it, in the order of the fields.
template <class Visitor>
void for_each_node(const ModuleNode& node, Visitor&& visit) {
  visit(node);
  for (const auto& child : node.children) for_each_node(*child, visit);
}

/// A size as a product, traced through constructors to the config.
struct Size {
  // Factors that are fields of the entry's config, in order; "text_config.hidden_size" of a config within it.
  std::vector<std::string> config_fields;
  std::vector<std::string> local_fields;  // those among them that came through a TP_LOCAL count
  std::vector<std::string> literals;
  bool known = true;  // false where something else is a factor
};

/// Where the config that `expr` names, in a constructor of `node`'s class or as its member, lies in the entry's:
/// "text_config." for one within it, "" for that itself. Nothing where it cannot be traced.
std::optional<std::string> trace_config(const ModuleNode& node, const Expr& expr);

/// Traces `expr`, which stands in the constructor of `node`'s class.
Size trace_size(const ModuleNode& node, const Expr& expr);

}  // namespace modgen
