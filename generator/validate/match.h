// A flattened body and the spec's, walked together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generator/validate/counterparts.h"
#include "generator/validate/validate.h"
#include "generator/validate/written.h"

namespace modgen {

/// Where an expression of a spec stands in for a parameter of a body that was inlined, its own place included.
struct Setting {
  Context context;
  const Setting* outer = nullptr;  // of the arguments
  std::map<const clang::ParmVarDecl*, const clang::Expr*> arguments = {};
};

class Match {
 public:
  Match(const Counterparts& counterparts, Validation& validation)
      : counterparts_(counterparts), validation_(validation) {}

  using Statements = std::vector<const clang::Stmt*>;

  /// Each says whether what is flattened is what the spec's is in that setting; where it is not, difference() says how.
  bool bodies(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec, const Setting& setting);
  bool sequence(const Statements& flattened, const Statements& spec, const Setting& setting);
  bool statement(const clang::Stmt& flattened, const clang::Stmt& spec, const Setting& setting);
  bool expression(const clang::Expr* flattened, const clang::Expr* spec, const Setting& setting);
  void parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec);

  /// From now on `flattened` is what code of the spec means by `spec`.
  void stands_for(const clang::ValueDecl& spec, const clang::ValueDecl& flattened) { locals_[&spec] = &flattened; }

  struct Difference {
    clang::SourceLocation where;  // in the flattened text
    std::string message;
  };
  const std::optional<Difference>& difference() const { return difference_; }
  void forget_difference() { difference_.reset(); }

  /// The statements of a body, empty ones left out.
  static Statements get_statements(const clang::Stmt* body);

 private:
  /// As sequence(), but more statements may follow those that `spec` means, after which `at` then stands.
  bool beginning(const Statements& flattened, size_t& at, const Statements& spec, const Setting& setting);
  bool differs(const clang::Stmt& at, std::string message);
  bool same_type(const clang::Expr& flattened, const clang::Expr& spec, const Setting& setting);
  bool same_conversions(const Written& flattened,
                        const std::vector<std::pair<const clang::Expr*, const Setting*>>& spec, const clang::Expr& at);
  bool widens(const Written& argument, size_t conversions_before);
  std::vector<std::string> texts(const std::vector<const clang::Expr*>& conversions) const;
  bool nodes(const clang::Expr& flattened, const clang::Expr& spec, const Setting& setting);
  bool folded(const clang::CXXBoolLiteralExpr& flag, const clang::VarDecl& constant, const Written& flattened,
              const Written& spec, const Setting& setting);
  bool argument(const Written& flattened, const Written& spec, const clang::Expr& given, const Setting& setting);
  bool inlined(const Written& flattened, const Written& spec, const clang::CallExpr& call, const Setting& setting);
  bool children(const clang::Stmt& flattened, const clang::Stmt& spec, const Setting& setting);
  bool declaration(const clang::Decl& flattened, const clang::Decl& spec, const Setting& setting);
  bool lambda(const clang::LambdaExpr& flattened, const clang::LambdaExpr& spec, const Setting& setting);
  bool refers(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const clang::Expr& at,
              const Setting& setting, bool exactly);
  bool literals(const clang::StringLiteral& flattened, const clang::StringLiteral& spec, const Setting& setting);
  bool is_name_for(const std::string& before, const std::string& after, const Setting& setting) const;
  /// A super call in the spec that the flattened text need not hold as a call; null for others.
  const clang::CXXMethodDecl* super_callee(const clang::CallExpr& call, const Setting& setting) const;
  Setting called(const clang::CXXMethodDecl& callee, const clang::CallExpr& call, const Setting& setting) const;
  bool calls(const clang::Stmt* flattened, const clang::CXXMethodDecl& callee) const;
  bool is_made_by_macro(const clang::Expr& literal) const;
  /// Whether a qualified name means the base's member, whatever the family redefines.
  bool names_base(const clang::Expr& name) const;

  const Counterparts& counterparts_;
  Validation& validation_;
  std::map<const clang::ValueDecl*, const clang::ValueDecl*> locals_;  // of specs to flattened ones; looked up only
  std::optional<Difference> difference_;
  bool converts_freely_ = false;  // the next expression is given to what the family redefines
  bool redefined_ = false;        // the type of the expression that was just walked follows what the family redefines
};

}  // namespace modgen
