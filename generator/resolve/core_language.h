// The part of C++ whose meaning modgen knows. Tables name each of Clang's AST node classes and say whether each
// analysis models it. The meaning of every other node is unknown, which is an error wherever it could matter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clang {
class ASTContext;
class CastExpr;
class Decl;
class QualType;
class Stmt;
}  // namespace clang

namespace modgen {

enum class Analysis {
  interpreter,  // shard types: which values are split over tp
  effects,      // state that code reads and modifies
  validator,    // the flattened text means what the spec means
};

/// Whether `analysis` knows what a statement or expression does, judging by its class and by the kind of an operator or
/// a conversion. A node that it knows may have operands that it does not know.
bool is_modelled(const clang::Stmt& statement, Analysis analysis);
bool is_modelled(const clang::Decl& declaration, Analysis analysis);
/// Judges by the class of the canonical type.
bool is_modelled(clang::QualType type, Analysis analysis);

/// Name of a construct, for messages: "a goto statement", "operator ->*", "a value of a member pointer type".
std::string name_construct(const clang::Stmt& statement);
std::string name_construct(clang::QualType type);

/// Whether converting a number with `cast` may change it: it loses digits or its fraction, or becomes a bool. A
/// constant that the type can hold stays the same.
bool may_change_number(const clang::CastExpr& cast, const clang::ASTContext& context);

/// Clang's lists of node classes, each of which has a table.
enum class NodeList { statements, declarations, types, casts, binary_operators, unary_operators };
/// The names in the table of `list`.
std::vector<std::string_view> table_names(NodeList list);

}  // namespace modgen
