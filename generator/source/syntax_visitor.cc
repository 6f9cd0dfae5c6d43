#include "generator/source/syntax_visitor.h"

namespace modgen {

SyntaxVisitor::~SyntaxVisitor() = default;

bool SyntaxVisitor::visit(const clang::Stmt* statement) { return TraverseStmt(const_cast<clang::Stmt*>(statement)); }

bool SyntaxVisitor::visit(const clang::Decl* declaration) {
  return TraverseDecl(const_cast<clang::Decl*>(declaration));
}

bool SyntaxVisitor::TraverseConstructorInitializer(clang::CXXCtorInitializer* init) {
  return RecursiveASTVisitor::TraverseConstructorInitializer(init);
}

bool SyntaxVisitor::TraverseCXXConstructorDecl(clang::CXXConstructorDecl* constructor) {
  return RecursiveASTVisitor::TraverseCXXConstructorDecl(constructor);
}

bool SyntaxVisitor::TraverseCXXRecordDecl(clang::CXXRecordDecl* record) {
  return RecursiveASTVisitor::TraverseCXXRecordDecl(record);
}

bool SyntaxVisitor::TraverseLambdaExpr(clang::LambdaExpr* lambda) {
  return RecursiveASTVisitor::TraverseLambdaExpr(lambda);
}

bool SyntaxVisitor::TraverseNestedNameSpecifierLoc(clang::NestedNameSpecifierLoc loc) {
  return RecursiveASTVisitor::TraverseNestedNameSpecifierLoc(loc);
}

bool SyntaxVisitor::TraverseTemplateArgumentLoc(const clang::TemplateArgumentLoc& loc) {
  return RecursiveASTVisitor::TraverseTemplateArgumentLoc(loc);
}

}  // namespace modgen
