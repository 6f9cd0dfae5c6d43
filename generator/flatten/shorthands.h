// Shorthands of the language and their expansion in a flattened family.
#pragma once

#include <string>

#include "generator/flatten/family.h"

namespace clang {
class VarDecl;
}  // namespace clang

namespace modgen {

/// The `static constexpr bool` that replaces the inherited field `name` in `entity`, a config; null if it has none.
/// Code that reads the field gets the constant's value, and the flattened config omits it.
const clang::VarDecl* folded_constant(const Entity& entity, const std::string& name);

/// The text for `constant` at `flag`: its value, with a comment that names the parameter it is passed to.
std::string folded_text(const clang::VarDecl& constant, const Reference& flag);

}  // namespace modgen
