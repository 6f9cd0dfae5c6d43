// Values in constructors, traced through arguments, fields and structs to the fields of the entry's config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/weave/module_tree.h"

namespace modgen {

/// A size, traced through constructors to the fields of the entry's config.
struct Size {
  Count count;
  std::vector<std::string> local_fields;  // the config fields that come from a TP_LOCAL count
};

/// Path within the entry's config of the config that `expr` names, in a constructor of `node`'s class or as its member:
/// "text_config." for a nested config, "" for the entry's config itself. Empty optional if it cannot be traced.
std::optional<std::string> trace_config(const ModuleNode& node, const Expr& expr);

/// An expression in the constructor of a node's class; null if it is not known.
struct Argument {
  const ModuleNode* node = nullptr;
  const Expr* expr = nullptr;
};

/// The argument that is passed for the parameter of the constructor of `node`'s class that `parameter` names; null if
/// it is not known, or if the constructor changes the parameter.
Argument find_argument(const ModuleNode& node, const Expr& parameter);

/// What a struct has as a member: an expression in the constructor of a node's class or, if `config` is set, in a
/// method of the config that `config` names there. The expression is null if it is not known.
struct MemberValue {
  Argument value;
  const Expr* config = nullptr;
  const Function* method = nullptr;  // with `config`
};

/// What the member `name` of the struct that `expr`, an expression in the constructor of `node`'s class, names.
MemberValue find_member_value(const ModuleNode& node, const Expr& expr, std::string_view name);

/// Traces `expr`, an expression in the constructor of `node`'s class.
Size trace_size(const ModuleNode& node, const Expr& expr);

}  // namespace modgen
