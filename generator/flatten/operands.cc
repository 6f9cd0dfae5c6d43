#include "generator/flatten/operands.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/ParentMap.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

const clang::Expr* bare(const clang::Expr* expr) {
  for (const clang::Expr* inner = expr;; expr = inner) {
    inner = expr->IgnoreImplicit()->IgnoreParens();
    if (inner == expr) return expr;
  }
}

/// The number of arguments, without those that take their defaults.
unsigned written_arguments(const clang::CXXConstructExpr& construct) {
  return static_cast<unsigned>(std::count_if(construct.arg_begin(), construct.arg_end(), [](const clang::Expr* one) {
    return !llvm::isa<clang::CXXDefaultArgExpr>(one);
  }));
}

/// Whether `expr` binds at least as tightly as a call.
bool is_tight(const clang::Expr& expr) {
  const clang::Expr* inner = expr.IgnoreImplicit();
  if (llvm::isa<clang::BinaryOperator, clang::AbstractConditionalOperator, clang::UnaryOperator, clang::LambdaExpr,
                clang::CStyleCastExpr, clang::CXXThrowExpr, clang::CXXRewrittenBinaryOperator>(inner))
    return false;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner))
    return call->getOperator() == clang::OO_Call || call->getOperator() == clang::OO_Subscript ||
           call->getOperator() == clang::OO_Arrow;
  // An implicit conversion.
  const clang::Expr* spelled = inner->IgnoreUnlessSpelledInSource();
  return spelled == inner || is_tight(*spelled);
}

}  // namespace

bool takes_any_expression(const clang::Stmt* parent, const clang::Expr& child) {
  while (parent && llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                             clang::CXXBindTemporaryExpr>(parent))
    return true;
  if (!parent || llvm::isa<clang::DeclStmt, clang::ReturnStmt, clang::CompoundStmt>(parent)) return true;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(parent))
    return call->getOperator() == clang::OO_Call && bare(call->getArg(0)) != bare(&child);
  if (const auto* call = llvm::dyn_cast<clang::CallExpr>(parent))
    return std::any_of(call->arg_begin(), call->arg_end(),
                       [&](const clang::Expr* argument) { return bare(argument) == bare(&child); });
  return false;
}

const clang::Stmt* meaningful_parent(const clang::ParentMap& parents, const clang::Stmt* stmt) {
  const clang::Stmt* parent = parents.getParent(stmt);
  while (parent && llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                             clang::CXXBindTemporaryExpr>(parent))
    parent = parents.getParent(parent);
  // An implicit converting or copying construction.
  if (const auto* construct = llvm::dyn_cast_or_null<clang::CXXConstructExpr>(parent);
      construct && !llvm::isa<clang::CXXTemporaryObjectExpr>(construct) && written_arguments(*construct) == 1)
    return meaningful_parent(parents, construct);
  return parent;
}

bool copies(const clang::Stmt* parent, const clang::FunctionDecl& function) {
  if (!parent) return false;
  if (const auto* declared = llvm::dyn_cast<clang::DeclStmt>(parent)) {
    const auto* variable =
        declared->isSingleDecl() ? llvm::dyn_cast<clang::VarDecl>(declared->getSingleDecl()) : nullptr;
    return variable && !variable->getType()->isReferenceType();
  }
  if (llvm::isa<clang::ReturnStmt>(parent)) return !function.getReturnType()->isReferenceType();
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(parent)) return binary->getOpcode() != clang::BO_Comma;
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(parent)) return unary->isArithmeticOp();
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(parent)) {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(callee);
    const auto changes = [](const clang::ParmVarDecl* parameter) {
      const clang::QualType type = parameter->getType();
      return type->isLValueReferenceType() && !type->getPointeeType().isConstQualified();
    };
    return call->isInfixBinaryOp() && !call->isAssignmentOp() && callee && (!method || method->isConst()) &&
           std::none_of(callee->param_begin(), callee->param_end(), changes);
  }
  return false;
}

const clang::Expr* returned(const clang::Stmt& body) {
  const auto* compound = llvm::dyn_cast<clang::CompoundStmt>(&body);
  if (!compound || compound->size() != 1) return nullptr;
  const auto* statement = llvm::dyn_cast<clang::ReturnStmt>(compound->body_front());
  return statement ? statement->getRetValue() : nullptr;
}

bool names_local(const clang::Expr& expr) {
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&expr);
  const auto* variable = name ? llvm::dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
  return variable && variable->hasLocalStorage();
}

bool is_repeatable_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (is_trivial_argument(*expr)) return true;
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(expr))
    return !binary->isAssignmentOp() && is_repeatable_argument(*binary->getLHS()) &&
           is_repeatable_argument(*binary->getRHS());
  if (const auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(expr))
    return is_repeatable_argument(*choice->getCond()) && is_repeatable_argument(*choice->getTrueExpr()) &&
           is_repeatable_argument(*choice->getFalseExpr());
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
    const clang::CXXMethodDecl* method = call->getMethodDecl();
    return method && method->isConst() && method->getParent()->isInStdNamespace() &&
           expr->getType()->isArithmeticType() && is_repeatable_argument(*call->getImplicitObjectArgument()) &&
           std::all_of(call->arg_begin(), call->arg_end(),
                       [](const clang::Expr* one) { return is_repeatable_argument(*one); });
  }
  return false;
}

bool is_trivial_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (llvm::isa<clang::DeclRefExpr, clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr,
                clang::StringLiteral, clang::CXXThisExpr, clang::CXXNullPtrLiteralExpr>(expr))
    return true;
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr)) return is_trivial_argument(*member->getBase());
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(expr))
    return !unary->isIncrementDecrementOp() && is_trivial_argument(*unary->getSubExpr());
  if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr)) return is_trivial_argument(*cast->getSubExpr());
  // A config that is passed to a base's constructor converts implicitly; code of specs cannot observe this.
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr))
    return llvm::isa_and_nonnull<clang::CXXConversionDecl>(call->getMethodDecl()) &&
           is_trivial_argument(*call->getImplicitObjectArgument());
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr))  // *config.head_dim
    return call->getNumArgs() == 1 &&
           (call->getOperator() == clang::OO_Star || call->getOperator() == clang::OO_Arrow) &&
           is_trivial_argument(*call->getArg(0));
  if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr))
    return construct->getNumArgs() == 1 && is_trivial_argument(*construct->getArg(0));
  return false;
}

bool reads_by_reference(const clang::Expr& argument) {
  struct Visitor : SyntaxVisitor {
    bool found = false;
    bool VisitDeclRefExpr(clang::DeclRefExpr* name) override {
      found |= name->getDecl()->getType()->isReferenceType() || llvm::isa<clang::BindingDecl>(name->getDecl());
      return true;
    }
    bool VisitMemberExpr(clang::MemberExpr* member) override {
      found |= member->getMemberDecl()->getType()->isReferenceType() ||
               (member->isArrow() && !llvm::isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts()));
      return true;
    }
    bool VisitUnaryOperator(clang::UnaryOperator* expr) override {
      found |= expr->getOpcode() == clang::UO_Deref;
      return true;
    }
    bool VisitArraySubscriptExpr(clang::ArraySubscriptExpr*) override {
      found = true;
      return true;
    }
    bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr*) override {
      found = true;
      return true;
    }
  } visitor;
  visitor.visit(&argument);
  return visitor.found;
}

bool is_comma(const clang::Expr& expr) {
  const clang::Expr* inner = expr.IgnoreImplicit();
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner))
    return call->getOperator() == clang::OO_Comma;
  const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(inner);
  return binary && binary->getOpcode() == clang::BO_Comma;
}

const clang::Decl* find_single(const clang::Stmt& code) {
  struct Visitor : SyntaxVisitor {
    const clang::Decl* found = nullptr;
    bool VisitVarDecl(clang::VarDecl* variable) override {
      if (!found && variable->isStaticLocal()) found = variable;
      return true;
    }
    bool VisitLabelStmt(clang::LabelStmt* label) override {
      if (!found) found = label->getDecl();
      return true;
    }
  } visitor;
  visitor.visit(&code);
  return visitor.found;
}

Fragment tight(Fragment text, const clang::Expr& expr, bool is_replaced) {
  if (!is_replaced && is_tight(expr)) return text;
  Fragment result("(");
  result.append(text);
  result.add(std::string(")"));
  return result;
}

std::optional<std::string> captured_name(const Family& family, SourceSpan where, const std::set<std::string>& hidden) {
  if (hidden.empty()) return std::nullopt;
  const std::string& text = family.file_text(where.file);
  const auto& references = family.specs().of_file(where.file)->references;
  const auto names_variable_or_member = [&](uint32_t begin) {
    auto at = std::lower_bound(references.begin(), references.end(), begin,
                               [](const Reference& one, uint32_t position) { return one.where.begin < position; });
    for (; at != references.end() && at->where.begin == begin; ++at) {
      const auto* variable = llvm::dyn_cast<clang::VarDecl>(at->target);
      // A member is written this->name, a function or constant of a family with the family's name.
      const bool is_spec_name = family.specs().symbol(at->target) && !family.specs().symbol(at->target)->is_class() &&
                                !llvm::isa<clang::EnumConstantDecl>(at->target);
      if (at->kind != Reference::Kind::name || is_spec_name || llvm::isa<clang::BindingDecl>(at->target) ||
          (variable && variable->isLocalVarDeclOrParm()))
        return true;
    }
    return false;
  };
  std::string before;
  for (const RawToken& token : raw_tokens(text, where.begin, where.end)) {
    if (token.kind == RawToken::Kind::comment) continue;
    const std::string word = text.substr(token.begin, token.end - token.begin);
    const bool is_part = before == "." || before == "->" || before == "::";
    if (token.kind == RawToken::Kind::identifier && !is_part && hidden.count(word) &&
        !names_variable_or_member(token.begin))
      return word;
    before = word;
  }
  return std::nullopt;
}

bool is_list(const Family& family, SourceSpan where) {
  const char first = family.file_text(where.file)[where.begin];
  return first == '{' || first == '=';
}

std::set<std::string> words_in(const Family& family, SourceSpan where) {
  const std::string& text = family.file_text(where.file);
  std::set<std::string> words;
  for (const RawToken& token : raw_tokens(text, where.begin, where.end))
    if (token.kind == RawToken::Kind::identifier) words.insert(text.substr(token.begin, token.end - token.begin));
  return words;
}

bool meet(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& name) { return other.count(name) != 0; });
}

}  // namespace modgen
