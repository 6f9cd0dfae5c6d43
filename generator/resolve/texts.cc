#include "generator/resolve/texts.h"

#include <clang/AST/ExprCXX.h>
#include <clang/Basic/SourceManager.h>

#include <algorithm>
#include <utility>

#include "generator/resolve/origins.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

/// `expr` without what the compiler adds, and without a written conversion to a string.
const clang::Expr& spelled(const clang::Expr& expr) {
  const clang::Expr* at = &expr;
  for (const clang::Expr* before = nullptr; at != before;) {
    before = at;
    at = at->IgnoreParenImpCasts();
    if (const auto* full = dyn_cast<clang::FullExpr>(at)) at = full->getSubExpr();
    if (const auto* temporary = dyn_cast<clang::MaterializeTemporaryExpr>(at)) at = temporary->getSubExpr();
    if (const auto* temporary = dyn_cast<clang::CXXBindTemporaryExpr>(at)) at = temporary->getSubExpr();
    if (const auto* cast = dyn_cast<clang::CXXFunctionalCastExpr>(at)) at = cast->getSubExpr();
  }
  return *at;
}

/// Whether a value of that type is a string: of the standard library, of c10, or of C.
bool is_string(clang::QualType type) {
  type = type.getNonReferenceType().getCanonicalType();
  if (type->isPointerType()) return type->getPointeeType()->isCharType();
  const auto* record = type->getAsCXXRecordDecl();
  return record && (is_of_standard(*record) || is_of_c10(*record)) && record->getDeclName().isIdentifier() &&
         (record->getName() == "basic_string" || record->getName() == "basic_string_view");
}

bool is_exception(const clang::CXXRecordDecl& record) { return derives_from(record, "std::exception"); }

llvm::StringRef name_of(const clang::NamedDecl& decl) {
  return decl.getDeclName().isIdentifier() ? decl.getName() : llvm::StringRef();
}

bool names_what(llvm::StringRef name) { return name == "what" || name == "what_without_backtrace" || name == "msg"; }

/// Whether `decl` is a method that gives an exception's text.
bool gives_text(const clang::Decl& decl) {
  const auto* method = dyn_cast<clang::CXXMethodDecl>(&decl);
  return method && names_what(name_of(*method)) && is_exception(*method->getParent());
}

/// The function that is called; of those that a call in a template may choose, the first. Null if it is not named.
const clang::FunctionDecl* callee_of(const clang::CallExpr& call) {
  if (const clang::FunctionDecl* callee = call.getDirectCallee()) return callee;
  const auto* names = dyn_cast<clang::OverloadExpr>(call.getCallee()->IgnoreParenImpCasts());
  return names && names->getNumDecls() > 0 ? (*names->decls_begin())->getUnderlyingDecl()->getAsFunction() : nullptr;
}

class TextFinder : public SyntaxVisitor {
 public:
  Texts found;
  std::vector<const clang::StringLiteral*> strings;  // all

  bool VisitStringLiteral(clang::StringLiteral* literal) override {
    strings.push_back(literal);
    return true;
  }
  bool VisitCXXThrowExpr(clang::CXXThrowExpr* expr) override {
    if (expr->getSubExpr()) add_thrown(*expr->getSubExpr());
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    const clang::FunctionDecl* callee = callee_of(*call);
    const auto* unknown = dyn_cast<clang::CXXDependentScopeMemberExpr>(call->getCallee());
    const bool may_read = unknown && unknown->getMember().isIdentifier() &&
                          names_what(unknown->getMember().getAsIdentifierInfo()->getName());
    found.are_read |= may_read || (callee && gives_text(*callee) && !said_again_.contains(call));
    // A check's function, name of the file, condition and message.
    if (!callee || !callee->isNoReturn() || is_of_spec(*callee) || call->getNumArgs() == 0) return true;
    for (const clang::Expr* argument : call->arguments()) add_literal(*argument);
    add(*call->getArg(call->getNumArgs() - 1));
    return true;
  }
  bool VisitDeclRefExpr(clang::DeclRefExpr* name) override {
    found.are_read |= gives_text(*name->getDecl());
    return true;
  }
  bool VisitStmt(clang::Stmt* statement) override {
    // The place of an error of c10.
    if (const auto* list = dyn_cast<clang::InitListExpr>(statement)) {
      const auto* record = list->getType().isNull() ? nullptr : list->getType()->getAsCXXRecordDecl();
      if (record && is_of_c10(*record) && name_of(*record) == "SourceLocation") add_literals(*list);
    }
    if (const auto* made = dyn_cast<clang::CXXUnresolvedConstructExpr>(statement)) {  // in a template
      const auto* record = made->getTypeAsWritten()->getAsCXXRecordDecl();
      const auto* list = record && is_of_c10(*record) && made->getNumArgs() > 0
                             ? dyn_cast<clang::InitListExpr>(made->getArg(0))
                             : nullptr;
      if (list) add_literals(*list);
    }
    return true;
  }
  bool VisitCXXMethodDecl(clang::CXXMethodDecl* method) override {
    if (name_of(*method) == "pretty_print" && method->doesThisDeclarationHaveABody()) add_printed(*method->getBody());
    return true;
  }

 private:
  void add_literal(const clang::Expr& expr) {
    if (const auto* literal = dyn_cast<clang::StringLiteral>(&spelled(expr))) found.literals.insert(literal);
  }

  void add_literals(const clang::InitListExpr& list) {
    for (const clang::Expr* element : list.inits()) add_literal(*element);
  }

  /// Adds the literals of `expr`, a text.
  void add(const clang::Expr& expr) {
    const clang::Expr& text = spelled(expr);
    add_literal(text);
    if (const auto* choice = dyn_cast<clang::ConditionalOperator>(&text)) {
      add(*choice->getTrueExpr());
      add(*choice->getFalseExpr());
    } else if (const auto* list = dyn_cast<clang::InitListExpr>(&text)) {
      if (list->getNumInits() == 1 && is_string(list->getType())) add(*list->getInit(0));
    } else if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(&text)) {
      const bool is_whole = std::all_of(construct->arg_begin() + (construct->getNumArgs() > 0), construct->arg_end(),
                                        [](const clang::Expr* one) { return isa<clang::CXXDefaultArgExpr>(one); });
      if (is_string(construct->getType()) && construct->getNumArgs() > 0 && is_whole) add(*construct->getArg(0));
    } else if (const auto* call = dyn_cast<clang::CallExpr>(&text)) {
      add_call(*call);
    }
  }

  void add_call(const clang::CallExpr& call) {
    const clang::FunctionDecl* callee = callee_of(call);
    if (!callee) return;
    if (gives_text(*callee)) said_again_.insert(&call);
    const auto* method = dyn_cast<clang::CXXMemberCallExpr>(&call);
    const auto* op = dyn_cast<clang::CXXOperatorCallExpr>(&call);
    const llvm::StringRef name = name_of(*callee);
    const bool joins = op && op->getOperator() == clang::OO_Plus && is_string(call.getType());
    const bool appends = method && is_string(method->getObjectType()) &&
                         (name == "append" || name == "c_str" || name == "data") && call.getNumArgs() < 2;
    const bool says = is_of_c10(*callee) && (name == "str" || name == "torchCheckMsgImpl");
    if (!joins && !appends && !says && !(callee->isInStdNamespace() && name == "move" && call.getNumArgs() == 1))
      return;
    if (appends) add(*method->getImplicitObjectArgument());
    for (const clang::Expr* argument : call.arguments()) add(*argument);
  }

  void add_thrown(const clang::Expr& expr) {
    const clang::Expr& thrown = spelled(expr);
    if (const auto* choice = dyn_cast<clang::ConditionalOperator>(&thrown)) {
      add_thrown(*choice->getTrueExpr());
      add_thrown(*choice->getFalseExpr());
    }
    const auto* construct = dyn_cast<clang::CXXConstructExpr>(&thrown);
    if (!construct) return;
    const clang::CXXConstructorDecl& constructor = *construct->getConstructor();
    if (constructor.isCopyOrMoveConstructor() && construct->getNumArgs() == 1) return add_thrown(*construct->getArg(0));
    const clang::CXXConstructorDecl* written = &constructor;
    while (const auto inherited = written->getInheritedConstructor()) written = inherited.getConstructor();
    if (!is_exception(*written->getParent()) || is_of_spec(*written->getParent())) return;
    for (unsigned index = 0; index < std::min(construct->getNumArgs(), constructor.getNumParams()); ++index)
      if (is_string(constructor.getParamDecl(index)->getType())) add(*construct->getArg(index));
  }

  /// Adds what `code` writes into streams.
  void add_printed(const clang::Stmt& code) {
    struct Printed : SyntaxVisitor {
      std::vector<const clang::Expr*> found;
      bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override {
        const auto* stream = call->getType()->getAsCXXRecordDecl();
        if (call->getOperator() == clang::OO_LessLess && call->getNumArgs() == 2 && stream && is_of_standard(*stream))
          found.push_back(call->getArg(1));
        return true;
      }
    } printed;
    printed.visit(&code);
    for (const clang::Expr* text : printed.found) add(*text);
  }

  std::set<const clang::CallExpr*> said_again_;  // calls of what() that another exception's text is made of
};

}  // namespace

Texts collect_texts(const clang::NamespaceDecl& space, const clang::SourceManager& manager, const Parsed& parsed) {
  TextFinder finder;
  finder.visit(&space);
  std::set<std::pair<uint32_t, uint32_t>> values;
  for (const clang::StringLiteral* literal : finder.strings) {
    const bool is_text = finder.found.literals.contains(literal);
    for (unsigned index = 0; index < literal->getNumConcatenated(); ++index) {
      const SourceSpan where = parsed.token(manager, manager.getSpellingLoc(literal->getStrTokenLoc(index)));
      if (where.file == 0) continue;
      if (is_text)
        finder.found.messages.push_back(where);
      else
        values.insert({where.file, where.begin});
    }
  }
  // A macro may use one string for both.
  std::erase_if(finder.found.messages, [&](const SourceSpan& one) { return values.contains({one.file, one.begin}); });
  return std::move(finder.found);
}

}  // namespace modgen
