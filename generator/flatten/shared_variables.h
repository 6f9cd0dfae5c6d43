// Variables that outlive a call.
#pragma once

#include <functional>

namespace clang {
class Stmt;
class VarDecl;
}  // namespace clang

namespace modgen {

/// Whether every copy of the variable has the same value, and none is written.
bool is_constant(const clang::VarDecl& variable);

/// The first static variable in `code` that `chosen` accepts; null if there is none.
const clang::VarDecl* find_static_variable(const clang::Stmt* code,
                                           const std::function<bool(const clang::VarDecl&)>& chosen);

}  // namespace modgen
