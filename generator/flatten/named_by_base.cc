#include "generator/flatten/named_by_base.h"

#include <optional>

#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

class Finder : public SyntaxVisitor {
 public:
  Finder(const Family& family, const Entity& entity) : family_(family), entity_(entity) {}
  NamedByBase found;

  bool VisitMemberExpr(clang::MemberExpr* member) override {
    if (member->hasQualifier() && llvm::isa<clang::FieldDecl>(member->getMemberDecl()) &&
        find_level(*member->getMemberDecl()))
      found.fields.push_back(member);
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    const clang::Expr* callee = call->getCallee()->IgnoreParenImpCasts();
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(callee); member && member->hasQualifier())
      add(*call, *member->getMemberDecl(), member->getQualifierLoc(), member->getMemberNameInfo(),
          member->isImplicitAccess() ? nullptr : member->getBase());
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(callee); name && name->hasQualifier())
      add(*call, *name->getDecl(), name->getQualifierLoc(), name->getNameInfo());
    const clang::FunctionDecl* function = call->getDirectCallee();
    if (function && function->getDeclName().isIdentifier() && call->getNumArgs() == 1 &&
        function->getQualifiedNameAsString() == "modular::own")
      found.owned.push_back(call);
    return true;
  }

 private:
  void add(const clang::CallExpr& call, const clang::ValueDecl& callee, clang::NestedNameSpecifierLoc qualifier,
           const clang::DeclarationNameInfo& name, const clang::Expr* object = nullptr) {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
    const auto level = find_level(callee);
    const auto& manager = family_.specs().manager();
    if (method && !level && is_level(qualifier))
      found.of_libraries.emplace_back(family_.parsed().span(manager, qualifier.getSourceRange()), method->getParent());
    if (!method || !level) return;
    found.calls.push_back({&call, method, family_.parsed().span(manager, qualifier.getSourceRange()),
                           family_.parsed().span(manager, name.getSourceRange()), *level, object});
  }

  bool is_level(clang::NestedNameSpecifierLoc qualifier) const {
    const clang::Type* type = qualifier.getNestedNameSpecifier()->getAsType();
    return type && find_level(type->getAsCXXRecordDecl()).has_value();
  }

  std::optional<size_t> find_level(const clang::ValueDecl& member) const {
    return find_level(llvm::dyn_cast<clang::CXXRecordDecl>(member.getDeclContext()));
  }

  std::optional<size_t> find_level(const clang::CXXRecordDecl* owner) const {
    const Symbol* symbol = owner ? family_.specs().symbol(owner) : nullptr;
    for (size_t level = 0; symbol && level < entity_.levels.size(); ++level)
      if (entity_.levels[level].symbol == symbol) return level;
    return std::nullopt;
  }

  const Family& family_;
  const Entity& entity_;
};

}  // namespace

NamedByBase find_named_by_base(const Family& family, const Entity& entity, const clang::Stmt& code) {
  Finder finder(family, entity);
  finder.visit(&code);
  return std::move(finder.found);
}

}  // namespace modgen
