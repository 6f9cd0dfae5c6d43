// Substitution of expressions that preserves their meaning: parentheses, copies, arguments that replace parameters.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "generator/source/fragment.h"
#include "generator/source/span.h"

namespace clang {
class Decl;
class Expr;
class FunctionDecl;
class ParentMap;
class Stmt;
}  // namespace clang

namespace modgen {

/// Whether `child` needs no parentheses around it in `parent`.
bool takes_any_expression(const clang::Stmt* parent, const clang::Expr& child);

/// The nearest explicit node above `stmt`.
const clang::Stmt* meaningful_parent(const clang::ParentMap& parents, const clang::Stmt* stmt);

/// Whether the direct consumer of a call's value copies it or only computes with it. Then the variable that the call
/// would have copied serves as well.
bool copies(const clang::Stmt* parent, const clang::FunctionDecl& function);

/// The value of a body that consists of one `return value;`; null for other bodies.
const clang::Expr* returned(const clang::Stmt& body);

/// Whether `argument` is a name, a literal or a part of one: repeating it costs nothing.
bool is_trivial_argument(const clang::Expr& argument);

/// Whether `argument` has no side effects and costs almost nothing, so that it may be evaluated more than once:
/// arithmetic on trivial arguments.
bool is_repeatable_argument(const clang::Expr& argument);

/// Whether the expression is the name of a parameter or another automatic variable, of which a lambda that captures it
/// copies the value.
bool names_local(const clang::Expr& expr);

/// Whether `argument` reads an object by a name that is not the object's own: a reference, a structured binding, or
/// through a pointer. A write of the object by its name changes it.
bool reads_by_reference(const clang::Expr& argument);

/// Whether the operator between the outermost operands of `expr` is a comma.
bool is_comma(const clang::Expr& expr);

/// The first static variable or label in `code`, which exists once per function; null if it has none.
const clang::Decl* find_single(const clang::Stmt& code);

/// `text`, in parentheses unless `expr`, which it spells, binds as tightly as a call. With `is_replaced`, `text` no
/// longer spells `expr` and always gets them.
Fragment tight(Fragment text, const clang::Expr& expr, bool is_replaced = false);

class Family;

/// A word in `where`, code of a spec, that names a function, constant or type there and is in `hidden`; nullopt if no
/// word does. Members of `this` do not count, because they can be written this->name; neither do the code's own
/// variables.
std::optional<std::string> captured_name(const Family& family, SourceSpan where, const std::set<std::string>& hidden);

/// Whether the expression at `where` is a list in braces, which Clang locates at its brace, or at the `=` before it.
bool is_list(const Family& family, SourceSpan where);

/// The identifiers in `where`.
std::set<std::string> words_in(const Family& family, SourceSpan where);

bool meet(const std::set<std::string>& one, const std::set<std::string>& other);

}  // namespace modgen
