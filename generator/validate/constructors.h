// Comparison of a flattened constructor with the constructors inlined into it.
#pragma once

#include "generator/validate/match.h"

namespace clang {
class CXXConstructorDecl;
}

namespace modgen {

/// Compares the flattened constructor with `spec`, of `context`'s level, and the constructors of its bases: each step
/// runs once, and in C++'s order if one step reads or modifies state that another modifies. Returns the first
/// difference.
std::optional<Match::Difference> constructor_difference(const Counterparts& counterparts, Validation& validation,
                                                        const clang::CXXConstructorDecl& flattened,
                                                        const clang::CXXConstructorDecl& spec, const Context& context);

}  // namespace modgen
