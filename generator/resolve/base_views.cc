#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <map>
#include <vector>

#include "generator/resolve/spec_reader.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

using Record = const clang::CXXRecordDecl*;

Record get_class(clang::QualType type) {
  if (type.isNull()) return nullptr;
  if (type->isReferenceType() || type->isPointerType()) type = type->getPointeeType();
  Record record = type->getAsCXXRecordDecl();
  return record && record->hasDefinition() ? record->getDefinition() : nullptr;
}

bool is_declared_in(const clang::NamespaceDecl& space, const clang::CXXRecordDecl& record) {
  return space.Encloses(record.getDeclContext());
}

/// Whether a spec's namespace declares the class. One inside another class keeps its bases.
bool is_of_spec(const clang::CXXRecordDecl& record) {
  const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(record.getDeclContext());
  const auto* outer = space ? llvm::dyn_cast<clang::NamespaceDecl>(space->getDeclContext()) : nullptr;
  return outer && outer->getName() == "modular" && outer->getDeclContext()->isTranslationUnit();
}

bool is_assignment(clang::DeclarationName name) { return name.getCXXOverloadedOperator() == clang::OO_Equal; }

/// Whether `derived`, or a class between it and `base`, declares a member of that name, or has fields that an
/// assignment copies.
bool redeclares(const clang::CXXRecordDecl& derived, const clang::CXXRecordDecl& base, clang::DeclarationName name) {
  if (derived.getCanonicalDecl() == base.getCanonicalDecl() || !derived.hasDefinition()) return false;
  if (is_assignment(name) && !derived.field_empty()) return true;
  const auto declared = derived.lookup(name);
  if (std::any_of(declared.begin(), declared.end(), [](const clang::NamedDecl* one) { return !one->isImplicit(); }))
    return true;
  return std::any_of(derived.bases_begin(), derived.bases_end(), [&](const clang::CXXBaseSpecifier& one) {
    Record record = get_class(one.getType());
    return record && redeclares(*record, base, name);
  });
}

/// An object of one class that code sees as one of another, its base.
struct View {
  Record derived, base;
  bool is_copy = false;  // of the base's part
  bool operator==(const View& other) const = default;
};

/// A member of an object that is not `this`; `object` is null in a template that does not say which class it has.
struct Access {
  Record object;
  clang::DeclarationName name;
  bool is_virtual;
  clang::SourceLocation where;
};

class BaseViews : public SyntaxVisitor {
 public:
  explicit BaseViews(const clang::NamespaceDecl& space) : space_(space) {}

  std::vector<BaseView> found() const {
    std::vector<BaseView> found;
    for (const Access& access : accesses_)
      for (const View& view : views_) {
        if (access.object ? access.object != view.base : view.base->lookup(access.name).empty()) continue;
        if ((access.is_virtual && !view.is_copy) || !redeclares(*view.derived, *view.base, access.name)) continue;
        found.push_back({access.name.getAsString(), view.base->getNameAsString(), access.where});
        break;
      }
    return found;
  }

  bool VisitStmt(clang::Stmt* statement) override {
    const auto* expr = llvm::dyn_cast<clang::Expr>(statement);
    const auto* cast = llvm::dyn_cast<clang::CastExpr>(statement);
    // An object of which a base's member is named.
    if (!expr || (cast && cast->getCastKind() == clang::CK_UncheckedDerivedToBase)) return true;
    const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr);
    if (const clang::Expr* object = call ? call->getImplicitObjectArgument() : nullptr) add_view(*object, *expr);
    if (const auto* other = llvm::dyn_cast<clang::CallExpr>(expr)) add_lent(*other);
    for (const clang::Stmt* child : expr->children())
      if (const auto* operand = llvm::dyn_cast_or_null<clang::Expr>(child)) add_view(*operand, *expr);
    if (const auto* member = llvm::dyn_cast<clang::CXXDependentScopeMemberExpr>(expr))
      accesses_.push_back({nullptr, member->getMember(), false, member->getMemberLoc()});
    return true;
  }
  bool VisitMemberExpr(clang::MemberExpr* expr) override {
    const clang::ValueDecl& member = *expr->getMemberDecl();
    const clang::Expr* object = expr->getBase()->IgnoreParenImpCasts();
    if (!expr->hasQualifier() && !llvm::isa<clang::CXXThisExpr>(object))
      add_access(object->getType(), member, expr->getMemberLoc());
    return true;
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override {
    const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(call->getDirectCallee());
    if (method) add_access(call->getArg(0)->IgnoreParenImpCasts()->getType(), *method, call->getOperatorLoc());
    return true;
  }

 private:
  void add_access(clang::QualType object, const clang::ValueDecl& member, clang::SourceLocation where) {
    Record record = get_class(object);
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&member);
    if (record && (!member.isImplicit() || is_assignment(member.getDeclName())) && !is_declared_in(space_, *record))
      accesses_.push_back({record, member.getDeclName(), method && method->isVirtual(), where});
  }

  /// A function of a library may assign to an object of the base that it is passed.
  void add_lent(const clang::CallExpr& call) {
    const clang::FunctionDecl* callee = call.getDirectCallee();
    if (!callee || !callee->isInStdNamespace()) return;
    for (const clang::Expr* argument : call.arguments()) {
      const auto* cast = llvm::dyn_cast<clang::CastExpr>(argument);
      Record base = cast && cast->getCastKind() == clang::CK_DerivedToBase ? get_class(cast->getType()) : nullptr;
      if (base && cast->isLValue() && !cast->getType().isConstQualified())
        accesses_.push_back({base, callee->getASTContext().DeclarationNames.getCXXOperatorName(clang::OO_Equal), false,
                             cast->getBeginLoc()});
    }
  }

  /// Records that `result`, made of `operand`, may be what `operand` is, seen as another class.
  void add_view(const clang::Expr& operand, const clang::Expr& result) {
    const std::vector<Record>& bases = get_classes(result.getType());
    if (bases.empty()) return;
    for (Record derived : get_classes(operand.IgnoreParenImpCasts()->getType()))
      for (Record base : bases) {
        if (derived == base || !derived->isDerivedFrom(base)) continue;
        const View view{derived, base, result.isPRValue() && result.getType()->getAsCXXRecordDecl() == base};
        if (std::find(views_.begin(), views_.end(), view) == views_.end()) views_.push_back(view);
      }
  }

  /// The classes of specs, without configs, that `type` is, leads to or holds.
  const std::vector<Record>& get_classes(clang::QualType type) {
    const auto [known, is_new] = classes_.try_emplace(type.getAsOpaquePtr());
    if (is_new) add_classes(type, known->second);
    return known->second;
  }

  static void add_classes(clang::QualType type, std::vector<Record>& found) {
    Record record = get_class(type);
    if (!record) return;
    if (Record held = held_by(*record)) record = held->getDefinition();
    if (record && is_of_spec(*record) && !is_config(*record)) found.push_back(record);
    const auto* instance = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(record);
    for (unsigned index = 0; instance && index < instance->getTemplateArgs().size(); ++index)
      if (const auto& one = instance->getTemplateArgs()[index]; one.getKind() == clang::TemplateArgument::Type)
        add_classes(one.getAsType(), found);
  }

  static bool is_config(const clang::CXXRecordDecl& record) {
    return record.getQualifiedNameAsString() == "modular::Config" ||
           std::any_of(record.bases_begin(), record.bases_end(), [](const clang::CXXBaseSpecifier& base) {
             Record from = get_class(base.getType());
             return from && is_config(*from);
           });
  }

  const clang::NamespaceDecl& space_;
  std::vector<View> views_;
  std::vector<Access> accesses_;
  std::map<void*, std::vector<Record>> classes_;  // by type; looked up, never iterated
};

}  // namespace

std::vector<BaseView> base_views(const clang::NamespaceDecl& space) {
  BaseViews visitor(space);
  visitor.visit(&space);
  return visitor.found();
}

}  // namespace modgen
