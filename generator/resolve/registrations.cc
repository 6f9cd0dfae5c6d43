#include "generator/resolve/registrations.h"

#include <clang/AST/ExprCXX.h>

#include <set>

#include "generator/resolve/origins.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {

namespace {

struct Literal : SyntaxVisitor {
  const clang::StringLiteral* found = nullptr;
  bool VisitStringLiteral(clang::StringLiteral* literal) override {
    found = literal;
    return true;
  }
};

/// Finds the name passed to register_module("name", …) or a similar function, at any depth.
class RegisteredName : public SyntaxVisitor {
 public:
  std::string name;
  bool VisitCallExpr(clang::CallExpr* call) override {
    if (const clang::StringLiteral* literal = registered_literal(*call); literal && name.empty())
      name = literal->getString().str();
    if (const auto registration = replaced_registration(*call); registration && name.empty()) name = registration->name;
    return true;
  }
};

}  // namespace

std::string own_field(const clang::Expr* expr) {
  const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr->IgnoreParenImpCasts());
  return member && llvm::isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts()) &&
                 llvm::isa<clang::FieldDecl>(member->getMemberDecl())
             ? member->getMemberDecl()->getNameAsString()
             : "";
}

const clang::StringLiteral* registered_literal(const clang::CallExpr& call) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  Literal literal;
  if (callee && callee->getDeclName().isIdentifier() && callee->getName().starts_with("register_") &&
      call.getNumArgs() > 0 && !is_of_spec(*callee))
    literal.visit(call.getArg(0));
  return literal.found;
}

std::string registered_name(const clang::Stmt* code) {
  RegisteredName finder;
  finder.visit(code);
  return finder.name;
}

namespace {

bool is_remake(const clang::CallExpr& call) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  return callee && callee->getDeclName().isIdentifier() && callee->getName() == "remake" &&
         callee->getQualifiedNameAsString() == "modular::remake" && call.getNumArgs() == 2;
}

/// Finds the first register_module("name", …) or similar call in an expression.
class RegisteringCall : public SyntaxVisitor {
 public:
  std::optional<Registration> found;
  bool VisitCallExpr(clang::CallExpr* call) override {
    if (const clang::StringLiteral* literal = registered_literal(*call); literal && !found)
      found = {call->getDirectCallee()->getNameAsString(), literal->getString().str()};
    return true;
  }
};

/// Finds a constructor's registration of one field: in the field's initializer, in an assignment, or with the field as
/// an argument.
class FieldRegistration : public SyntaxVisitor {
 public:
  explicit FieldRegistration(const std::string& field) : field_(field) {}
  std::optional<Registration> found;

  bool TraverseConstructorInitializer(clang::CXXCtorInitializer* init) override {
    if (init->isAnyMemberInitializer() && init->getAnyMember()->getName() == field_) look_into(init->getInit());
    return SyntaxVisitor::TraverseConstructorInitializer(init);
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override {
    if (call->getOperator() == clang::OO_Equal && own_field(call->getArg(0)) == field_) look_into(call->getArg(1));
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    if (registered_literal(*call) && call->getNumArgs() > 1 &&
        own_field(call->getArg(1)->IgnoreUnlessSpelledInSource()) == field_)
      look_into(call);
    return true;
  }

 private:
  void look_into(clang::Expr* expr) {
    if (found) return;
    RegisteringCall calls;
    calls.visit(expr);
    found = calls.found;
  }

  const std::string& field_;
};

class RemakeChecker : public SyntaxVisitor {
 public:
  std::vector<WrongRemake> found;

  bool TraverseCXXConstructorDecl(clang::CXXConstructorDecl* constructor) override {
    in_constructor_ = true;
    SyntaxVisitor::TraverseCXXConstructorDecl(constructor);
    in_constructor_ = false;
    return true;
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override {
    if (call->getOperator() != clang::OO_Equal) return true;
    const auto* value = llvm::dyn_cast<clang::CallExpr>(call->getArg(1)->IgnoreUnlessSpelledInSource());
    if (const clang::MemberExpr* member = value ? replaced_member(*value) : nullptr;
        member && own_field(call->getArg(0)) == member->getMemberDecl()->getName())
      assigned_.insert(value);
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    if (!is_remake(*call)) return true;
    const clang::MemberExpr* member = replaced_member(*call);
    const std::string name = member ? member->getMemberDecl()->getNameAsString() : "member";
    if (member && !member->getType()->isRecordType())
      found.push_back({"'" + name + "' is not registered: it is neither a module nor a tensor",
                       "assign it: " + name + " = …;", call->getSourceRange()});
    else if (!in_constructor_ || !assigned_.count(call))
      found.push_back({"the result is not assigned to the member that it replaces",
                       "write " + name + " = remake(" + name + ", …); in the constructor", call->getSourceRange()});
    else if (!replaced_registration(*call))
      found.push_back({"no inherited constructor registers '" + name + "'",
                       "register it here: " + name + " = register_module(\"" + name + "\", …)",
                       call->getSourceRange()});
    return true;
  }

 private:
  bool in_constructor_ = false;
  std::set<const clang::CallExpr*> assigned_;  // looked up, never iterated
};

}  // namespace

const clang::MemberExpr* replaced_member(const clang::CallExpr& call) {
  if (!is_remake(call) || own_field(call.getArg(0)).empty()) return nullptr;
  return llvm::cast<clang::MemberExpr>(call.getArg(0)->IgnoreParenImpCasts());
}

std::optional<Registration> inherited_registration(const clang::CXXRecordDecl& record, const std::string& field) {
  for (const clang::CXXBaseSpecifier& specifier : record.bases()) {
    const clang::CXXRecordDecl* base = specifier.getType()->getAsCXXRecordDecl();
    if (!base || !base->hasDefinition()) continue;
    base = base->getDefinition();
    FieldRegistration finder(field);
    for (const clang::CXXConstructorDecl* constructor : base->ctors())
      if (const clang::FunctionDecl* definition = constructor->getDefinition(); definition && !finder.found)
        finder.visit(definition);
    if (finder.found) return finder.found;
    if (auto inherited = inherited_registration(*base, field)) return inherited;
  }
  return std::nullopt;
}

std::optional<Registration> replaced_registration(const clang::CallExpr& call) {
  const clang::MemberExpr* member = replaced_member(call);
  if (!member) return std::nullopt;
  const auto* self = llvm::cast<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts());
  return inherited_registration(*self->getType()->getPointeeCXXRecordDecl(),
                                member->getMemberDecl()->getNameAsString());
}

std::vector<WrongRemake> wrong_remakes(const clang::NamespaceDecl& space) {
  RemakeChecker checker;
  checker.visit(&space);
  return checker.found;
}

}  // namespace modgen
