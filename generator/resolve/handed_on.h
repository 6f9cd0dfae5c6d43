// Classes whose methods hand their object on, so that other code may see it.
#pragma once

#include <clang/AST/DeclCXX.h>

namespace modgen {

/// Whether code of `derived`'s bases hands an object of `derived` on as one of `seen`, which is one of these bases: it
/// passes `this` to a function, or stores it. Code that names members of `this`, or returns it, does not.
bool hands_on(const clang::CXXRecordDecl& derived, const clang::CXXRecordDecl& seen);

}  // namespace modgen
