// Parallel traversal of a flattened body and the spec's.
#pragma once

#include <clang/AST/ExprCXX.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/validate/counterparts.h"
#include "generator/validate/validate.h"

namespace clang {
class CXXConstructorDecl;
class CXXForRangeStmt;
}  // namespace clang

namespace modgen {

struct Written {
  const clang::Expr* expr = nullptr;            // without implicit nodes
  std::vector<const clang::Expr*> conversions;  // conversions of its value, innermost first
};

/// Omits copies, bindings and conversions of an object to a base of its class: the value category and the type imply
/// the former, and flattened classes do not have such bases.
Written written(const clang::Expr* expr);

/// The bindings of an inlined body's parameters to expressions of a spec, with the scope of these expressions.
struct BindingScope {
  Context context;
  const BindingScope* outer = nullptr;  // scope of the arguments
  std::map<const clang::ParmVarDecl*, const clang::Expr*> arguments = {};
};

class Match {
 public:
  Match(const Counterparts& counterparts, Validation& validation)
      : counterparts_(counterparts), validation_(validation) {}

  using Statements = std::vector<const clang::Stmt*>;

  /// Each returns whether the flattened code equals the spec's in that scope; if not, difference() describes the first
  /// difference.
  bool bodies(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec, const BindingScope& scope);
  /// Of constructors that call none of a base: the initializers and the body.
  bool initializers_and_body(const clang::CXXConstructorDecl& flattened, const clang::CXXConstructorDecl& spec,
                             const BindingScope& scope);
  bool sequence(const Statements& flattened, const Statements& spec, const BindingScope& scope);
  bool statement(const clang::Stmt& flattened, const clang::Stmt& spec, const BindingScope& scope);
  bool expression(const clang::Expr* flattened, const clang::Expr* spec, const BindingScope& scope);
  void parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec);

  /// Binds the spec's `spec` to `flattened` from now on.
  void stands_for(const clang::ValueDecl& spec, const clang::ValueDecl& flattened) { locals_[&spec] = &flattened; }

  struct Difference {
    clang::SourceLocation where;  // in the flattened text
    std::string message;
    std::string advice = "rewrite it with distinct names and types";
  };
  const std::optional<Difference>& difference() const { return difference_; }
  void forget_difference() { difference_.reset(); }

  /// The statements of a body, without empty ones.
  static Statements get_statements(const clang::Stmt* body);

 private:
  /// Like sequence(), but more statements may follow. Sets `at` to the first of them.
  bool beginning(const Statements& flattened, size_t& at, const Statements& spec, const BindingScope& scope);
  bool differs(clang::SourceLocation at, std::string message, std::string advice = {});
  bool differs(const clang::Stmt& at, std::string message, std::string advice = {}) {
    return differs(at.getBeginLoc(), std::move(message), std::move(advice));
  }
  bool same_type(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope);
  bool same_conversions(const Written& flattened,
                        const std::vector<std::pair<const clang::Expr*, const BindingScope*>>& spec,
                        const clang::Expr& at);
  /// Whether two conversions of one kind call the same function, and do the same with it.  (match_libraries.cc)
  bool same_callee(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope);
  bool widens(const Written& argument, size_t conversions_before);
  std::vector<std::string> texts(const std::vector<const clang::Expr*>& conversions) const;
  bool nodes(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope);
  bool folded(const clang::CXXBoolLiteralExpr& flag, const clang::VarDecl& constant, const Written& flattened,
              const Written& spec, const BindingScope& scope);
  bool argument(const Written& flattened, const Written& spec, const clang::Expr& given, const BindingScope& scope);
  bool inlined(const Written& flattened, const Written& spec, const clang::CallExpr& call, const BindingScope& scope);
  bool children(const clang::Stmt& flattened, const clang::Stmt& spec, const BindingScope& scope);
  /// Whether own code that calls a method through a base leaves out an argument of the same value.
  bool same_default(const clang::CXXDefaultArgExpr& flattened, const clang::CXXDefaultArgExpr& spec,
                    const BindingScope& scope);
  /// Whether the calls that a loop over a range makes by itself are the same.
  bool same_steps(const clang::CXXForRangeStmt& flattened, const clang::CXXForRangeStmt& spec,
                  const BindingScope& scope);
  bool declaration(const clang::Decl& flattened, const clang::Decl& spec, const BindingScope& scope);
  bool same_declared_type(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const BindingScope& scope);
  /// Binds a local class or enum and its members, and compares them.  (match_local_types.cc)
  bool local_type(const clang::TagDecl& flattened, const clang::TagDecl& spec, const BindingScope& scope);
  bool local_member(const clang::Decl& flattened, const clang::Decl& spec, const BindingScope& scope);
  /// Whether `member`, of a local class of the spec, is bound to `flattened`.
  bool is_local_member(const clang::ValueDecl& flattened, const clang::ValueDecl& member) const;
  bool lambda(const clang::LambdaExpr& flattened, const clang::LambdaExpr& spec, const BindingScope& scope);
  bool refers(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const clang::Expr& at,
              const BindingScope& scope, bool exactly);
  bool literals(const clang::StringLiteral& flattened, const clang::StringLiteral& spec, const BindingScope& scope);
  bool is_name_for(const std::string& before, const std::string& after, const BindingScope& scope) const;
  /// The callee of a super call in the spec, which may be inlined in the flattened text; null for other calls.
  const clang::CXXMethodDecl* super_callee(const clang::CallExpr& call, const BindingScope& scope) const;
  BindingScope called(const clang::CXXMethodDecl& callee, const clang::CallExpr& call, const BindingScope& scope) const;
  bool calls(const clang::Stmt* flattened, const clang::CXXMethodDecl& callee) const;
  /// Whether the callee is a function of a library, by its name.
  bool names_library(const clang::Stmt& callee) const;
  bool is_written_in_spec(const clang::Expr& literal) const;
  bool skips_place(const clang::Expr& literal);
  /// Whether a qualified name refers to the base's member, regardless of redefinitions.
  bool names_base(const clang::Expr& name) const;

  /// Whether a dependent call chooses among the same functions.  (match_templates.cc)
  bool overloads(const clang::OverloadExpr& flattened, const clang::OverloadExpr& spec, const BindingScope& scope);
  /// Whether instances of a spec's function template do the same; true for other declarations.
  bool instances(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const BindingScope& scope);
  /// Whether the flattened classes give a question about types the same answer.  (match_types.cc)
  bool answers(const clang::Expr& flattened, const clang::Expr& spec);
  /// Whether no class that `type` is, or that derives from it, is merged with another one.
  bool distinguishes(clang::SourceLocation at, clang::QualType type);
  bool is_merged(clang::QualType type) const;

  /// Whether what a library's template does with classes of specs is the same.  (match_libraries.cc)
  bool libraries(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope);
  bool same_function(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec,
                     const BindingScope& scope) const;
  /// False if the flattened class has the constructor that the spec's code runs, and code runs another one.
  bool same_constructor(const clang::CXXConstructorDecl& flattened, const clang::CXXConstructorDecl& spec,
                        const BindingScope& scope) const;
  bool same_parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec,
                       const BindingScope& scope) const;
  bool is_of_spec(const clang::Decl& decl) const;
  /// Whether a library makes its objects in the same way.  (match_made_objects.cc)
  bool made_objects(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope);

  const Counterparts& counterparts_;
  Validation& validation_;
  std::map<const clang::ValueDecl*, const clang::ValueDecl*>
      locals_;  // variables and members of local types of specs to flattened ones; looked up only
  std::map<const clang::DeclContext*, const clang::DeclContext*> local_types_;  // likewise
  std::set<const clang::FunctionDecl*> instances_;  // of specs' templates, compared so far; looked up only
  std::optional<Difference> difference_;
  bool converts_freely_ = false;  // the next expression is an argument of a redefined function
  bool redefined_ = false;        // the type of the last expression follows a redefinition of the family
};

/// Compares the flattened constructor with `spec`, of `context`'s level, and the constructors of its bases: each step
/// runs once, and in C++'s order if one step reads or modifies state that another modifies. Returns the first
/// difference.
std::optional<Match::Difference> constructor_difference(const Counterparts& counterparts, Validation& validation,
                                                        const clang::CXXConstructorDecl& flattened,
                                                        const clang::CXXConstructorDecl& spec, const Context& context);

}  // namespace modgen
