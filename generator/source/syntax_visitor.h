// The base of all visitors of Clang's syntax trees. RecursiveASTVisitor takes seconds to compile for each class that
// derives from it; this one is compiled once and calls virtual functions.
#pragma once

#include <clang/AST/RecursiveASTVisitor.h>

namespace modgen {

/// Visits written code in the order of clang::RecursiveASTVisitor, without template instantiations. A visitor overrides
/// the functions of the nodes that it looks at; one that returns false ends the visit. Nodes that no visitor looks at
/// have no function here yet.
class SyntaxVisitor : private clang::RecursiveASTVisitor<SyntaxVisitor> {
 public:
  virtual ~SyntaxVisitor();

  /// Visits a node, which may be null, and all below it. Returns whether the visit reached the end.
  bool visit(const clang::Stmt* statement);
  bool visit(const clang::Decl* declaration);

 protected:
  using RecursiveASTVisitor = clang::RecursiveASTVisitor<SyntaxVisitor>;
  friend RecursiveASTVisitor;

  virtual bool VisitStmt(clang::Stmt*) { return true; }
  virtual bool VisitArraySubscriptExpr(clang::ArraySubscriptExpr*) { return true; }
  virtual bool VisitBinaryOperator(clang::BinaryOperator*) { return true; }
  virtual bool VisitCallExpr(clang::CallExpr*) { return true; }
  virtual bool VisitCXXConstructExpr(clang::CXXConstructExpr*) { return true; }
  virtual bool VisitCXXDefaultArgExpr(clang::CXXDefaultArgExpr*) { return true; }
  virtual bool VisitCXXDefaultInitExpr(clang::CXXDefaultInitExpr*) { return true; }
  virtual bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr*) { return true; }
  virtual bool VisitCXXThisExpr(clang::CXXThisExpr*) { return true; }
  virtual bool VisitCXXThrowExpr(clang::CXXThrowExpr*) { return true; }
  virtual bool VisitDeclRefExpr(clang::DeclRefExpr*) { return true; }
  virtual bool VisitDesignatedInitExpr(clang::DesignatedInitExpr*) { return true; }
  virtual bool VisitLabelStmt(clang::LabelStmt*) { return true; }
  virtual bool VisitLambdaExpr(clang::LambdaExpr*) { return true; }
  virtual bool VisitMemberExpr(clang::MemberExpr*) { return true; }
  virtual bool VisitOverloadExpr(clang::OverloadExpr*) { return true; }
  virtual bool VisitReturnStmt(clang::ReturnStmt*) { return true; }
  virtual bool VisitStringLiteral(clang::StringLiteral*) { return true; }
  virtual bool VisitUnaryOperator(clang::UnaryOperator*) { return true; }

  virtual bool VisitBindingDecl(clang::BindingDecl*) { return true; }
  virtual bool VisitCXXConstructorDecl(clang::CXXConstructorDecl*) { return true; }
  virtual bool VisitCXXMethodDecl(clang::CXXMethodDecl*) { return true; }
  virtual bool VisitCXXRecordDecl(clang::CXXRecordDecl*) { return true; }
  virtual bool VisitFieldDecl(clang::FieldDecl*) { return true; }
  virtual bool VisitFriendDecl(clang::FriendDecl*) { return true; }
  virtual bool VisitNamedDecl(clang::NamedDecl*) { return true; }
  virtual bool VisitTagDecl(clang::TagDecl*) { return true; }
  virtual bool VisitUsingDecl(clang::UsingDecl*) { return true; }
  virtual bool VisitVarDecl(clang::VarDecl*) { return true; }

  virtual bool VisitDeducedTemplateSpecializationTypeLoc(clang::DeducedTemplateSpecializationTypeLoc) { return true; }
  virtual bool VisitInjectedClassNameTypeLoc(clang::InjectedClassNameTypeLoc) { return true; }
  virtual bool VisitTagTypeLoc(clang::TagTypeLoc) { return true; }
  virtual bool VisitTemplateSpecializationTypeLoc(clang::TemplateSpecializationTypeLoc) { return true; }
  virtual bool VisitTypedefTypeLoc(clang::TypedefTypeLoc) { return true; }
  virtual bool VisitUsingTypeLoc(clang::UsingTypeLoc) { return true; }

  /// These visit what is below a node; an override calls this class's.
  virtual bool TraverseConstructorInitializer(clang::CXXCtorInitializer* init);
  virtual bool TraverseCXXConstructorDecl(clang::CXXConstructorDecl* constructor);
  virtual bool TraverseCXXRecordDecl(clang::CXXRecordDecl* record);
  virtual bool TraverseLambdaExpr(clang::LambdaExpr* lambda);
  virtual bool TraverseNestedNameSpecifierLoc(clang::NestedNameSpecifierLoc loc);
  virtual bool TraverseTemplateArgumentLoc(const clang::TemplateArgumentLoc& loc);
};

}  // namespace modgen
