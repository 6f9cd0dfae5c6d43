#include "generator/resolve/core_language.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclBase.h>
#include <clang/AST/Expr.h>

#include <cctype>

namespace modgen {
namespace {

/// The three columns of a table's row.
bool choose(Analysis analysis, bool interpreter, bool effects, bool validator) {
  return analysis == Analysis::interpreter ? interpreter : analysis == Analysis::effects ? effects : validator;
}

constexpr bool modelled = true, unknown = false;

bool is_modelled_kind(clang::CastKind kind, Analysis analysis) {
  switch (kind) {
#define CAST(kind, ...)  \
  case clang::CK_##kind: \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_nodes.def"
    default:
      return unknown;
  }
}

bool is_modelled_kind(clang::BinaryOperatorKind kind, Analysis analysis) {
  switch (kind) {
#define BINARY_OPERATOR(kind, ...) \
  case clang::BO_##kind:           \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_nodes.def"
    default:
      return unknown;
  }
}

bool is_modelled_kind(clang::UnaryOperatorKind kind, Analysis analysis) {
  switch (kind) {
#define UNARY_OPERATOR(kind, ...) \
  case clang::UO_##kind:          \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_nodes.def"
    default:
      return unknown;
  }
}

bool is_modelled_class(const clang::Stmt& statement, Analysis analysis) {
  switch (statement.getStmtClass()) {
#define STATEMENT(name, ...)     \
  case clang::Stmt::name##Class: \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_statements.def"
    default:
      return unknown;
  }
}

/// The words of one of Clang's class names: "CXXDynamicCastExpr" is "dynamic cast expression".
std::string to_words(std::string_view name) {
  for (const std::string_view prefix : {"CXX", "GCC"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  std::string_view ending;
  for (const auto& [suffix, word] : {std::pair{"Stmt", " statement"}, std::pair{"Expr", " expression"}})
    if (name.ends_with(suffix)) name.remove_suffix(4), ending = word;
  std::string words;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool starts = i > 0 && std::isupper(static_cast<unsigned char>(name[i])) &&
                        (std::islower(static_cast<unsigned char>(name[i - 1])) ||
                         (i + 1 < name.size() && std::islower(static_cast<unsigned char>(name[i + 1]))));
    if (starts) words += ' ';
    words += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  words.append(ending);
  return (std::string_view("aeio").find(words.front()) == std::string_view::npos ? "a " : "an ") + words;
}

}  // namespace

bool is_modelled(const clang::Stmt& statement, Analysis analysis) {
  if (!is_modelled_class(statement, analysis)) return false;
  if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(&statement))
    return is_modelled_kind(cast->getCastKind(), analysis);
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(&statement))
    return is_modelled_kind(binary->getOpcode(), analysis);
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(&statement))
    return is_modelled_kind(unary->getOpcode(), analysis);
  return true;
}

bool is_modelled(const clang::Decl& declaration, Analysis analysis) {
  switch (declaration.getKind()) {
#define DECLARATION(name, ...) \
  case clang::Decl::name:      \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_nodes.def"
    default:
      return unknown;
  }
}

bool is_modelled(clang::QualType type, Analysis analysis) {
  switch (type.getCanonicalType()->getTypeClass()) {
#define TYPE(name, ...)   \
  case clang::Type::name: \
    return choose(analysis, __VA_ARGS__);
#include "generator/resolve/core_language_nodes.def"
    default:
      return unknown;
  }
}

std::string name_construct(const clang::Stmt& statement) {
  if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(&statement))
    if (!is_modelled_kind(cast->getCastKind(), Analysis::interpreter))
      return std::string("a conversion that Clang calls ") + cast->getCastKindName();
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(&statement))
    return "operator " + binary->getOpcodeStr().str();
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(&statement))
    return "operator " + clang::UnaryOperator::getOpcodeStr(unary->getOpcode()).str();
  return to_words(statement.getStmtClassName());
}

std::string name_construct(clang::QualType type) {
  return "a value of " + to_words(type.getCanonicalType()->getTypeClassName()) + " type";
}

bool may_change_number(const clang::CastExpr& cast, const clang::ASTContext& context) {
  const clang::Expr& number = *cast.getSubExpr();
  switch (cast.getCastKind()) {
    case clang::CK_FloatingToIntegral:
    case clang::CK_FloatingToBoolean:
      return true;
    case clang::CK_IntegralCast:
    case clang::CK_IntegralToBoolean:
      break;
    default:
      return false;
  }
  clang::Expr::EvalResult before, after;
  if (!cast.isValueDependent() && number.EvaluateAsInt(before, context) && cast.EvaluateAsInt(after, context))
    return !llvm::APSInt::isSameValue(before.Val.getInt(), after.Val.getInt());
  return cast.getCastKind() == clang::CK_IntegralToBoolean || number.getType()->isDependentType() ||
         cast.getType()->isDependentType() ||
         context.getIntWidth(cast.getType()) < context.getIntWidth(number.getType());
}

std::vector<std::string_view> table_names(NodeList list) {
  switch (list) {
    case NodeList::statements:
      return {
#define STATEMENT(name, ...) #name,
#include "generator/resolve/core_language_statements.def"
      };
    case NodeList::declarations:
      return {
#define DECLARATION(name, ...) #name,
#include "generator/resolve/core_language_nodes.def"
      };
    case NodeList::types:
      return {
#define TYPE(name, ...) #name,
#include "generator/resolve/core_language_nodes.def"
      };
    case NodeList::casts:
      return {
#define CAST(kind, ...) #kind,
#include "generator/resolve/core_language_nodes.def"
      };
    case NodeList::binary_operators:
      return {
#define BINARY_OPERATOR(kind, ...) #kind,
#include "generator/resolve/core_language_nodes.def"
      };
    case NodeList::unary_operators:
      return {
#define UNARY_OPERATOR(kind, ...) #kind,
#include "generator/resolve/core_language_nodes.def"
      };
  }
  return {};
}

}  // namespace modgen
