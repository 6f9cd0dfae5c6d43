#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "generator/resolve/object_types.h"
#include "generator/resolve/spec_reader.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

using Record = const clang::CXXRecordDecl*;

bool is_declared_in(const clang::NamespaceDecl& space, const clang::CXXRecordDecl& record) {
  return space.Encloses(record.getDeclContext());
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

/// Whether `object` may be one of a class that derives from its type: it is not a variable, a field or a new object of
/// that type.
bool may_be_derived(const clang::Expr& object) {
  const clang::Expr& named = *object.IgnoreParenImpCasts();
  const clang::ValueDecl* decl = nullptr;
  if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&named)) decl = name->getDecl();
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(&named)) decl = member->getMemberDecl();
  return !named.isPRValue() && (!decl || decl->getType()->isReferenceType() || llvm::isa<clang::BindingDecl>(decl));
}

/// An object of one class that code sees as one of another, its base.
struct View {
  Record derived, base;
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
        // A virtual member is the derived class's unless the object is a copy of the base's part.
        if ((access.is_virtual && !copied_.count(view.base)) || !redeclares(*view.derived, *view.base, access.name))
          continue;
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
    add_copies(*expr);
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
        const View view{derived, base};
        if (std::find(views_.begin(), views_.end(), view) == views_.end()) views_.push_back(view);
      }
  }

  /// Records the classes of which `made` may copy the base's part of an object: where it copies the object, and where a
  /// function of a library that is passed one makes, or is passed, something that holds such objects.
  void add_copies(const clang::Expr& made) {
    const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(&made);
    const auto* call = llvm::dyn_cast<clang::CallExpr>(&made);
    const clang::FunctionDecl* callee = construct ? construct->getConstructor()
                                        : call    ? call->getDirectCallee()
                                                  : nullptr;
    if (!callee) return;
    std::vector<const clang::Expr*> operands;
    if (construct)
      operands.assign(construct->arg_begin(), construct->arg_end());
    else
      operands.assign(call->arg_begin(), call->arg_end());
    // Few calls have operands with classes of specs.
    if (std::ranges::all_of(operands, [&](const clang::Expr* one) {
          return get_classes(one->IgnoreParenImpCasts()->getType()).empty();
        }))
      return;
    std::vector<Record> copied;
    if (construct && construct->getConstructor()->isCopyOrMoveConstructor()) add_held(made.getType(), copied);
    if (!is_declared_by_specs(*callee)) add_held_by_library(made, *callee, operands, copied);
    for (const clang::Expr* operand : operands)
      for (Record given : get_classes(operand->IgnoreParenImpCasts()->getType()))
        for (Record base : copied)
          if (given == base ? leads_to_derived(*operand) : given->isDerivedFrom(base)) copied_.insert(base);
  }

  /// Adds the classes that the call's result or operands hold, unless these are objects of the classes themselves.
  static void add_held_by_library(const clang::Expr& made, const clang::FunctionDecl& callee,
                                  const std::vector<const clang::Expr*>& operands, std::vector<Record>& found) {
    const auto add_holder = [&](const clang::Expr& holder, bool is_new) {
      const bool is_object = !holder.getType().isNull() && !holder.getType()->isPointerType();
      Record record = is_object ? get_class(holder.getType()) : nullptr;
      if (is_new || (record && !is_class_of_spec(*record))) add_held(holder.getType(), found);
    };
    add_holder(made, made.isPRValue());
    const auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(&made);
    if (const clang::Expr* object = member ? member->getImplicitObjectArgument() : nullptr) add_holder(*object, false);
    for (const clang::Expr* one : operands) add_holder(*one, false);
    const auto* arguments = callee.getTemplateSpecializationArgs();
    const bool constructs = callee.getDeclName().isIdentifier() &&
                            (callee.getName().starts_with("make_") || callee.getName().starts_with("allocate_"));
    const auto made_types = arguments && constructs ? get_types(arguments->asArray()) : std::vector<clang::QualType>();
    if (!made_types.empty()) add_held(made_types[0], found);
  }

  /// Whether `operand`, of a type that is, leads to or holds a class, leads to objects that may be of a derived one.
  static bool leads_to_derived(const clang::Expr& operand) {
    const clang::Expr& object = *operand.IgnoreParenImpCasts();  // of a type that has classes
    return object.getType()->isPointerType() ||
           (object.getType()->getAsCXXRecordDecl() && is_class_of_spec(*object.getType()->getAsCXXRecordDecl()) &&
            may_be_derived(object));
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
    if (record && is_class_of_spec(*record) && !is_config(*record)) found.push_back(record);
    const auto* instance = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(record);
    if (!instance) return;
    for (const clang::QualType one : get_types(instance->getTemplateArgs().asArray())) add_classes(one, found);
  }

  const clang::NamespaceDecl& space_;
  std::vector<View> views_;
  std::vector<Access> accesses_;
  std::set<Record> copied_;  // bases of whose part of an object there may be copies; only membership is tested
  std::map<void*, std::vector<Record>> classes_;  // by type; looked up, never iterated
};

}  // namespace

std::vector<BaseView> base_views(const clang::NamespaceDecl& space) {
  BaseViews visitor(space);
  visitor.visit(&space);
  return visitor.found();
}

}  // namespace modgen
