// What may stand in the place of an expression without another meaning: parentheses, copies, arguments that are written
// where a parameter was.
#pragma once

#include "generator/source/fragment.h"

namespace clang {
class Expr;
class FunctionDecl;
class ParentMap;
class Stmt;
}  // namespace clang

namespace modgen {

/// Whether `child` needs no parentheses around it in `parent`.
bool takes_any_expression(const clang::Stmt* parent, const clang::Expr& child);

/// The nearest node above `stmt` that is written.
const clang::Stmt* meaningful_parent(const clang::ParentMap& parents, const clang::Stmt* stmt);

/// What gets the value of a call at once copies it, or only computes with it, so that it may as well be the variable
/// that the call would have copied.
bool copies(const clang::Stmt* parent, const clang::FunctionDecl& function);

/// The value of a body that is one `return value;`; null where it is another.
const clang::Expr* returned(const clang::Stmt& body);

/// `argument` is a name, a literal, or a part of such: it costs nothing to write it again.
bool is_trivial_argument(const clang::Expr& argument);

/// `argument` has no effects and costs next to nothing, so it may be evaluated more than once: numbers made of trivial
/// ones.
bool is_repeatable_argument(const clang::Expr& argument);

/// `text` in parentheses, unless `expr`, which it spells, binds as tightly as a call; always where it `is_replaced`, so
/// that the text spells something else.
Fragment tight(Fragment text, const clang::Expr& expr, bool is_replaced = false);

}  // namespace modgen
