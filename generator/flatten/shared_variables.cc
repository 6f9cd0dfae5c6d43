// Static variables that classes of a family share: C++ has one for all of them, and flattened, each class has its own.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>
#include <functional>
#include <set>

#include "generator/flatten/family.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/members.h"
#include "generator/flatten/shared_variables.h"
#include "generator/flatten/side_effects.h"
#include "generator/flatten/special_members.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Whether another class of the family has the members of `owner`, too.
bool has_other_user(const Family& family, const Entity& entity, const Symbol& owner) {
  const auto derives = [&](const Symbol* symbol) {
    while (symbol && symbol != &owner) symbol = symbol->base;
    return symbol != nullptr;
  };
  const std::vector<Symbol*>& declared = family.spec().symbols;
  const auto& entities = family.entities();
  return std::any_of(declared.begin(), declared.end(),
                     [&](const Symbol* one) {
                       return one->is_class() && one != entity.levels.front().symbol && derives(one);
                     }) ||
         std::any_of(entities.begin(), entities.end(),
                     [&](const auto& one) { return one.get() != &entity && derives(one->levels.front().symbol); });
}

/// Finds the code that may learn where a constant is, as opposed to its value: that takes its address, binds it to a
/// reference or passes it to code that may.
class Locating : public SyntaxVisitor {
 public:
  explicit Locating(const clang::VarDecl& constant) { names_.insert(constant.getCanonicalDecl()); }
  const clang::Expr* found = nullptr;

  bool VisitStmt(clang::Stmt* statement) override {
    if (const auto* loop = llvm::dyn_cast<clang::CXXForRangeStmt>(statement)) {
      if (loop->getRangeInit() && reads(*loop->getRangeInit())) add_name(*loop->getLoopVariable());
      return true;
    }
    const auto* expr = llvm::dyn_cast<clang::Expr>(statement);
    if (!expr) return true;
    if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr);
        cast && (cast->getCastKind() == clang::CK_LValueToRValue || cast->getCastKind() == clang::CK_ToVoid))
      reads(*cast->getSubExpr());
    if (const auto* size = llvm::dyn_cast<clang::UnaryExprOrTypeTraitExpr>(expr); size && !size->isArgumentType())
      reads(*size->getArgumentExpr());
    const bool makes_value = (llvm::isa<clang::CallExpr, clang::CXXConstructExpr>(expr)) && expr->isPRValue() &&
                             !expr->getType()->isDependentType() &&
                             (expr->getType()->isVoidType() || get_reach(expr->getType()) != Reach::anything);
    if (makes_value) reads_operands(*expr);
    if (!found && names(*expr) && !read_.count(expr)) found = expr;
    return !found;
  }
  bool VisitVarDecl(clang::VarDecl* variable) override {
    if (variable->isLocalVarDecl() && variable->getInit() && reads_reference(*variable)) add_name(*variable);
    return true;
  }

 private:
  bool names(const clang::Expr& expr) const {
    const clang::ValueDecl* decl = nullptr;
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&expr)) decl = name->getDecl();
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(&expr)) decl = member->getMemberDecl();
    return decl && names_.count(llvm::cast<clang::ValueDecl>(decl->getCanonicalDecl()));
  }

  /// A local name for the constant, or a part of it.
  void add_name(const clang::VarDecl& variable) {
    if (variable.getType()->isReferenceType()) names_.insert(variable.getCanonicalDecl());
  }
  bool reads_reference(const clang::VarDecl& variable) {
    return variable.getType()->isReferenceType() && reads(*variable.getInit());
  }

  /// Marks the names in `expr`, of which only the value is read. Returns whether there are any.
  bool reads(const clang::Expr& expr) {
    const clang::Expr& part = *expr.IgnoreParenImpCasts();
    const bool is_named = names(part);
    if (is_named) read_.insert(&part);
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(&part)) return reads(*member->getBase()) || is_named;
    if (const auto* element = llvm::dyn_cast<clang::ArraySubscriptExpr>(&part)) return reads(*element->getBase());
    if (const auto* target = llvm::dyn_cast<clang::UnaryOperator>(&part);
        target && target->getOpcode() == clang::UO_Deref)
      return reads(*target->getSubExpr());
    if (const auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(&part)) {
      const bool first = reads(*choice->getTrueExpr());
      return reads(*choice->getFalseExpr()) || first;
    }
    if (llvm::isa<clang::MaterializeTemporaryExpr, clang::FullExpr, clang::CXXBindTemporaryExpr,
                  clang::CXXStdInitializerListExpr, clang::InitListExpr>(part)) {
      bool any = false;
      for (const clang::Stmt* child : part.children())
        if (const auto* inner = llvm::dyn_cast_or_null<clang::Expr>(child)) any |= reads(*inner);
      return any;
    }
    return llvm::isa<clang::CallExpr, clang::CXXConstructExpr>(part) ? reads_operands(part) : is_named;
  }

  /// The same for what a function reads that cannot keep a reference: one of a library, or a method its object.
  bool reads_operands(const clang::Expr& made) {
    const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(&made);
    const auto* call = llvm::dyn_cast<clang::CallExpr>(&made);
    const clang::FunctionDecl* callee = construct ? construct->getConstructor() : call->getDirectCallee();
    bool any = false;
    if (const auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(&made))
      any |= reads(*member->getImplicitObjectArgument());
    const bool is_own = !callee || is_of_spec(*callee);
    if (is_own && !(construct && construct->getConstructor()->isCopyOrMoveConstructor())) return any;
    for (const clang::Stmt* child : made.children())
      if (const auto* operand = llvm::dyn_cast_or_null<clang::Expr>(child)) any |= reads(*operand);
    return any;
  }

  std::set<const clang::ValueDecl*> names_;  // the constant, and references to it; only membership is tested
  std::set<const clang::Expr*> read_;        // likewise
};

/// Code of the specs that may learn where the constant is; null if none may.
const clang::Expr* find_locating(const Specs& specs, const clang::VarDecl& constant) {
  for (const auto& spec : specs.all())
    if (spec->space) {
      Locating visitor(constant);
      visitor.visit(spec->space);
      if (visitor.found) return visitor.found;
    }
  return nullptr;
}

/// The static variable that `member` is, or that its code declares, if `chosen` accepts it.
const clang::VarDecl* static_variable(const clang::NamedDecl& member,
                                      const std::function<bool(const clang::VarDecl&)>& chosen) {
  if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(&member)) return chosen(*variable) ? variable : nullptr;
  if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(&member))
    return find_static_variable(field->getInClassInitializer(), chosen);
  const auto* pattern = llvm::dyn_cast<clang::ClassTemplateDecl>(&member);
  const auto* inner = pattern ? pattern->getTemplatedDecl() : llvm::dyn_cast<clang::CXXRecordDecl>(&member);
  if (inner)
    for (const clang::Decl* decl : inner->decls())
      if (const auto* one = llvm::dyn_cast<clang::NamedDecl>(decl); one && !one->isImplicit())
        if (const clang::VarDecl* found = static_variable(*one, chosen)) return found;
  const clang::FunctionDecl* function = member.getAsFunction();
  return function ? find_static_variable(Specs::defined(*function).getBody(), chosen) : nullptr;
}

}  // namespace

bool is_constant(const clang::VarDecl& variable) {
  if (variable.isConstexpr()) return true;
  if (!variable.getType().isConstQualified()) return false;
  const clang::VarDecl* definition = variable.getInitializingDeclaration();
  const clang::Expr* value = definition ? definition->getInit() : nullptr;
  if (!value || value->isValueDependent() || value->isEvaluatable(variable.getASTContext())) return true;
  const SideEffects effects = find_side_effects(value, {});
  return effects.is_pure() && !effects.reads_everything && effects.reads.empty() && effects.read_variables.empty();
}

const clang::VarDecl* find_static_variable(const clang::Stmt* code,
                                           const std::function<bool(const clang::VarDecl&)>& chosen) {
  struct Visitor : SyntaxVisitor {
    explicit Visitor(const std::function<bool(const clang::VarDecl&)>& chosen) : chosen(chosen) {}
    const std::function<bool(const clang::VarDecl&)>& chosen;
    const clang::VarDecl* found = nullptr;
    bool VisitVarDecl(clang::VarDecl* variable) override {
      if (!found && variable->isStaticLocal() && chosen(*variable)) found = variable;
      return true;
    }
  } visitor(chosen);
  visitor.visit(code);
  return visitor.found;
}

void check_shared_variables(const Family& family, const Entity& entity, const std::vector<Member>& members) {
  for (const Member& member : members) {
    if (!member.decl) continue;
    const Symbol& owner = *entity.levels[member.level].symbol;
    const clang::Expr* locating = nullptr;
    const clang::VarDecl* variable = static_variable(*member.decl, [&](const clang::VarDecl& one) {
      // Instances of a template for a class and its base are two in C++.
      const bool has_instances = one.isStaticDataMember() && one.getDeclContext()->isDependentContext();
      if (has_instances ? entity.levels.size() == 1 : !has_other_user(family, entity, owner)) return false;
      if (is_constant(one)) locating = find_locating(family.specs(), one);
      return locating || !is_constant(one);
    });
    if (!variable) continue;
    std::vector<Remark> notes = {{Diagnostic::Severity::note,
                                  member.slice->core,
                                  variable == member.decl ? "the static member" : "the static variable",
                                  "",
                                  {}}};
    if (locating)
      notes.push_back({Diagnostic::Severity::note,
                       family.parsed().span(family.specs().manager(), locating->getSourceRange()),
                       "its address is taken here, or a reference to it leaves",
                       "",
                       {}});
    family.specs().reject(entity.levels.front().symbol->where,
                          "'" + variable->getNameAsString() + "' is one variable of all classes that derive from '" +
                              owner.name + "', and flattened, each class would have its own",
                          locating ? "use its value alone, or make it a variable outside of the class"
                                   : "make it a constant, or a variable outside of the class",
                          notes);
  }
}

}  // namespace modgen
