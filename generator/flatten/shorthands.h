// Shorthands of the language: what stands for them in a flattened family.
#pragma once

#include <string>

#include "generator/flatten/family.h"

namespace clang {
class VarDecl;
}  // namespace clang

namespace modgen {

/// The `static constexpr bool` that `entity`, a config, has in the place of an inherited field `name`; null where it
/// has none. What reads it gets its value, and the flattened config does without it.
const clang::VarDecl* folded_constant(const Entity& entity, const std::string& name);

/// What stands for `constant` at `flag`: its value, with the name of the parameter that it is given for.
std::string folded_text(const clang::VarDecl& constant, const Reference& flag);

}  // namespace modgen
