// Tensors and modules that constructors give a second name.
#pragma once

#include <optional>

#include "generator/weave/module_tree.h"

namespace modgen {

/// Where `owner` makes `field`, a registered tensor, another name of a tensor that something else names, or gives the
/// module in `field` a parameter of something else; empty if what it names is its own.
std::optional<SourceSpan> find_shared(const FamilyModel& family, const Class& owner, const Field& field);

/// Whether the constructor of the parent registers a module that has another name as `node`.
bool is_second_name(const ModuleNode& node);

}  // namespace modgen
