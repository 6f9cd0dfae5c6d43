// A flattened constructor and the constructors that it unravels.
#pragma once

#include "generator/validate/match.h"

namespace clang {
class CXXConstructorDecl;
}

namespace modgen {

/// Whether the flattened constructor does what `spec`, of `context`'s level, does with those of its bases: each effect
/// once, and in C++'s order as far as one reads or changes what another one changes. Where it does not, what differs.
std::optional<Match::Difference> constructor_difference(const Counterparts& counterparts, Validation& validation,
                                                        const clang::CXXConstructorDecl& flattened,
                                                        const clang::CXXConstructorDecl& spec, const Context& context);

}  // namespace modgen
