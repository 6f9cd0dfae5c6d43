// Forms of C++ that no later stage knows: found once, so that the error names the form.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/StmtCXX.h>

#include "generator/resolve/spec_reader.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

class UnsupportedForms : public SyntaxVisitor {
 public:
  std::vector<UnsupportedForm> found;

  bool VisitStmt(clang::Stmt* statement) override {
    // The body comes before the first co_await, co_yield or co_return in it.
    is_coroutine_ |= llvm::isa<clang::CoroutineBodyStmt>(statement);
    const bool suspends =
        llvm::isa<clang::CoroutineSuspendExpr, clang::CoreturnStmt, clang::DependentCoawaitExpr>(statement);
    if (is_coroutine_ && suspends)
      found.push_back({"coroutines",
                       "write a function that returns its values, or a class that keeps its state between calls",
                       statement->getBeginLoc()});
    is_coroutine_ &= !suspends;
    return true;
  }
  bool VisitCXXConstructorDecl(clang::CXXConstructorDecl* constructor) override {
    const clang::Stmt* body = constructor->doesThisDeclarationHaveABody() ? constructor->getBody() : nullptr;
    if (body && llvm::isa<clang::CXXTryStmt>(body))
      found.push_back({"a function-try-block of a constructor", "write the try block inside the constructor's body",
                       body->getBeginLoc()});
    return true;
  }

 private:
  bool is_coroutine_ = false;
};

}  // namespace

std::vector<UnsupportedForm> unsupported_forms(const clang::NamespaceDecl& space) {
  UnsupportedForms finder;
  finder.visit(&space);
  return std::move(finder.found);
}

}  // namespace modgen
