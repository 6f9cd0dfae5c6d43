// The members of objects that code names, in instances of templates too.
#pragma once

#include <clang/AST/DeclCXX.h>

#include <map>
#include <set>
#include <vector>

#include "generator/source/syntax_visitor.h"

namespace modgen {

/// Visits code for the members that it names of objects other than `this`, and for the functions that it names. Code
/// that C++ adds to what is written is visited, too.
class NamedMembers : public SyntaxVisitor {
 public:
  bool VisitStmt(clang::Stmt* statement) override;
  bool VisitBindingDecl(clang::BindingDecl* binding) override;
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* construct) override;
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override;
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override;
  bool VisitMemberExpr(clang::MemberExpr* expr) override;

  /// Visits the body and the initializers of a function's definition.
  void visit_code(const clang::FunctionDecl& definition);

 protected:
  /// A member of `object`, which the code sees as one of its type.
  virtual void add_member(const clang::Expr& object, const clang::ValueDecl& member, clang::SourceLocation where) = 0;
  virtual void add_function(const clang::FunctionDecl& function, clang::SourceLocation where) = 0;

 private:
  std::set<const clang::InitListExpr*> lists_;  // visited: a list in a list is part of the outer one's both forms
};

struct NamedMember {
  clang::QualType object;
  const clang::ValueDecl* member;
};

/// The members that instances of templates name for their arguments: the templates themselves do not say which these
/// are.
class InstanceMembers {
 public:
  /// Looks at templates of specs, except those that `own`, a spec's namespace, declares.
  explicit InstanceMembers(const clang::NamespaceDecl& own) : own_(own) {}

  /// The members that `instance` names, and the instances that it calls in turn.
  std::vector<NamedMember> of(const clang::FunctionDecl& instance);

 private:
  struct Names {
    std::vector<NamedMember> members;
    std::vector<const clang::FunctionDecl*> functions;
  };
  const Names& names(const clang::FunctionDecl& instance);

  const clang::NamespaceDecl& own_;
  std::map<const clang::FunctionDecl*, Names> known_;  // looked up, never iterated
};

}  // namespace modgen
