// Reads the side effects of code. Its parts: expressions and statements (side_effects.cc), calls (effects_of_calls.cc),
// and what C++ runs without an expression (effects_of_implicit_code.cc).
#pragma once

#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>

#include <functional>
#include <set>

#include "generator/flatten/side_effects.h"
#include "generator/flatten/writes.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {

class EffectsReader : public SyntaxVisitor {
 public:
  explicit EffectsReader(const MethodsMeant& meant) : meant_(meant) {}
  /// For code that `caller`'s code calls.
  EffectsReader(const MethodsMeant& meant, const EffectsReader& caller)
      : meant_(meant), running_(caller.running_), functions_(true) {}
  SideEffects found;

  bool VisitMemberExpr(clang::MemberExpr* expr) override;
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override;
  bool VisitVarDecl(clang::VarDecl* variable) override;
  bool VisitBindingDecl(clang::BindingDecl* binding) override;
  bool VisitTagDecl(clang::TagDecl* local) override;
  bool TraverseCXXRecordDecl(clang::CXXRecordDecl* local) override;
  bool VisitCXXThisExpr(clang::CXXThisExpr* expr) override;
  bool VisitReturnStmt(clang::ReturnStmt*) override;
  bool TraverseLambdaExpr(clang::LambdaExpr* lambda) override;
  bool VisitCXXThrowExpr(clang::CXXThrowExpr*) override;
  bool VisitBinaryOperator(clang::BinaryOperator* expr) override;
  bool VisitUnaryOperator(clang::UnaryOperator* expr) override;
  bool VisitArraySubscriptExpr(clang::ArraySubscriptExpr* expr) override;
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* construct) override;
  bool VisitCallExpr(clang::CallExpr* call) override;
  bool VisitStmt(clang::Stmt* statement) override;
  bool VisitCXXDefaultArgExpr(clang::CXXDefaultArgExpr* argument) override;
  bool VisitCXXDefaultInitExpr(clang::CXXDefaultInitExpr* initial) override;

  /// Initializes an object of that type, a part of another object, without an initializer.
  void construct(clang::QualType type);

  /// Runs all constructors, operators and destructors of a class of a spec.
  void run_special_members(const clang::CXXRecordDecl& record);

 private:
  void write(const clang::Expr* expr, bool inside = false) { writes_.add(*expr, inside); }
  void writes_anything() { found.set_everything(); }
  void read_global(const clang::VarDecl& variable);

  /// Records a read of what a pointer points to, which has to be there. The results of operators are theirs to check.
  void look_through(const clang::Expr* pointer);
  /// Records a read of what `expr` points to, holds or views.
  void read_through(const clang::Expr* expr);
  void assign(const clang::Expr& target, const clang::Expr& value);

  // ---- Calls --------------------------------------------------------------------------------------------------------

  void call_library(const clang::FunctionDecl& callee);
  void visit_method(clang::CXXMemberCallExpr& call);
  void visit_operator(clang::CXXOperatorCallExpr& call);

  /// Records writes to the arguments that the parameters of `callee` allow it to modify.
  void write_arguments(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments);
  /// Records writes by a function that a function of the standard library is passed, as in std::invoke, to the
  /// variables that it is passed next to it.
  void write_forwarded(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments);
  /// Records what a function of a library may do with the iterators, views and functions that it is passed.
  void lend_arguments(llvm::ArrayRef<clang::Expr*> arguments, bool reads, bool of_ranges = false);
  /// Calls an argument that is a function, or an object of a spec with operator().
  void call_argument(const clang::Expr& argument);

  /// Runs a constructor or method of another object of a spec, whose fields are not this object's. Returns whether it
  /// may modify them, as a const method does with mutable ones. Unless the object's class is exact, overriders of the
  /// virtual methods that it calls may do anything.
  bool run_elsewhere(const clang::CXXMethodDecl& method, bool is_exact = true);
  /// Runs the function's body if it is in a spec or a lambda. Its local variables do not count.
  void follow(const clang::FunctionDecl& callee);
  void run(const clang::FunctionDecl& function);

  /// Adds what `inner` found in code of another object, and returns whether that may modify its fields.
  bool add_elsewhere(EffectsReader& inner);
  /// The methods of another object of exactly the class that its expression has.
  static const MethodsMeant& as_named();

  // ---- What C++ runs without an expression --------------------------------------------------------------------------

  /// Runs what C++ defines for a function of a class: the same function of each of the object's parts.
  void run_memberwise(const clang::CXXMethodDecl& method);
  void run_of_parts(const clang::CXXRecordDecl& record,
                    const std::function<bool(const clang::CXXMethodDecl&)>& is_kind);
  /// Initializes the parts of an object whose constructor leaves that to C++.
  void construct_parts(const clang::CXXRecordDecl& record);
  /// Runs the destructors of an object of that type and of its parts.
  void destroy(clang::QualType type);
  /// Initializes the fields of an aggregate that braces leave out.
  void construct_omitted(const clang::InitListExpr& list);
  /// A field's own initializer, in code of another object.
  void initialize_elsewhere(const clang::Expr& value);
  /// The calls of begin(), end() and the iterators' operators.
  void run_range(const clang::CXXForRangeStmt& loop);
  /// Runs the functions of specs that `code` calls, and returns whether they may modify the objects that they are of.
  bool run_callees(const clang::Stmt& code, bool is_exact);

  const MethodsMeant& meant_;
  std::set<const clang::FunctionDecl*> running_;
  bool functions_ = false;
  Writes writes_{found};
  std::set<const clang::Expr*> targets_;
  std::set<const clang::CXXThisExpr*> seen_as_object_;
  int lambdas_ = 0;
};

}  // namespace modgen
