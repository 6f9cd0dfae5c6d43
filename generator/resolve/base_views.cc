#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/resolve/handed_on.h"
#include "generator/resolve/named_members.h"
#include "generator/resolve/object_types.h"
#include "generator/resolve/origins.h"
#include "generator/resolve/spec_reader.h"

namespace modgen {
namespace {

using Record = const clang::CXXRecordDecl*;

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

bool is_virtual(const clang::NamedDecl& member) {
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&member);
  return method && method->isVirtual();
}

/// Whether the class declares only virtual members of that name.
bool has_only_virtual(const clang::CXXRecordDecl& record, clang::DeclarationName name) {
  const auto declared = record.lookup(name);
  return std::all_of(declared.begin(), declared.end(), [](const clang::NamedDecl* one) { return is_virtual(*one); });
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

/// Whether the standard library may call members of that name of an object that it is passed.
bool is_known_to_library(clang::DeclarationName name) {
  static const std::set<llvm::StringRef> names = {"begin", "end", "rbegin", "rend", "size", "data", "empty", "swap"};
  if (name.isIdentifier()) return names.count(name.getAsIdentifierInfo()->getName());
  return name.getCXXOverloadedOperator() != clang::OO_None && !is_assignment(name);
}

/// Whether the function of the library calls no member of what it is passed.
bool only_passes_on(const clang::FunctionDecl& function) {
  static const std::set<llvm::StringRef> names = {"move", "forward", "as_const", "addressof"};
  return function.getDeclName().isIdentifier() && names.count(function.getName());
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
  std::string in;  // the function of another spec or the library that has the access, and which is named at `where`
  bool is_written = false;  // code of the spec writes the type of the object, as opposed to inheriting or deducing it
};

/// Generic code that only the library calls, whose own code Clang does not read here: an instance that takes a class,
/// or code of which no instance is known, that a function of another spec is passed (`parameter` is null).
struct Unread {
  clang::SourceRange code;
  Record parameter;
};

class BaseViews : public NamedMembers {
 public:
  explicit BaseViews(const clang::NamespaceDecl& space) : space_(space), instances_of_others_(space) {}

  /// Records the copies that methods of bases make of their object.
  void add_copies_by_bases() {
    struct Copies : SyntaxVisitor {
      BaseViews* views;
      bool VisitStmt(clang::Stmt* statement) override {
        if (const auto* expr = llvm::dyn_cast<clang::Expr>(statement)) views->add_copies(*expr);
        return true;
      }
    } copies;
    copies.views = this;
    std::vector<Record> bases;
    add_bases(bases);
    for (Record base : std::set<Record>(bases.begin(), bases.end()))
      for (const clang::Stmt* body : get_method_bodies(*base)) copies.visit(body);
  }

  std::vector<BaseView> found() const {
    std::vector<BaseView> found;
    std::set<std::pair<clang::SourceLocation, std::string>> known;
    for (const Access& access : accesses_)
      for (Record base : classes_of(access))
        if (means_another(access, *base) && known.emplace(access.where, access.name.getAsString()).second)
          found.push_back({access.name.getAsString(), base->getNameAsString(), access.in, access.where});
    return found;
  }

  bool VisitStmt(clang::Stmt* statement) override {
    if (const auto* expr = llvm::dyn_cast<clang::Expr>(statement)) add_expression(*expr);
    return NamedMembers::VisitStmt(statement);
  }
  bool VisitLambdaExpr(clang::LambdaExpr* lambda) override {
    if (const clang::FunctionTemplateDecl* of_many = lambda->getDependentCallOperator()) visit_instances(*of_many);
    return true;
  }
  bool VisitNamedDecl(clang::NamedDecl* decl) override {
    if (const auto* of_many = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl)) visit_instances(*of_many);
    const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl);
    if (record && record->isThisDeclarationADefinition() && is_class_of_spec(*record)) own_classes_.push_back(record);
    return true;
  }

 private:
  bool is_own(const clang::Decl& decl) const { return space_.Encloses(decl.getDeclContext()); }
  bool is_of_base(const clang::CXXRecordDecl& record) const {
    return is_class_of_spec(record) && !is_config(record) && !is_own(record);
  }

  /// The base's classes of which the object of the access may be one, as the code sees it.
  std::vector<Record> classes_of(const Access& access) const {
    if (access.object) return {access.object};
    std::vector<Record> classes;
    if (resolved_.count(access.where)) return classes;  // instances of the template say which, each in its own access
    for (const View& view : views_) classes.push_back(view.base);
    for (const Unread& unread : unread_)
      if (unread.code.fullyContains(access.where)) {
        if (unread.parameter) classes.push_back(unread.parameter);
        if (!unread.parameter) add_bases(classes);
      }
    std::erase_if(classes, [&](Record one) { return one->lookup(access.name).empty(); });
    return classes;
  }

  void add_bases(std::vector<Record>& classes) const {
    for (Record derived : own_classes_)
      derived->forallBases([&](Record base) {
        if (is_of_base(*base)) classes.push_back(base);
        return true;
      });
  }

  /// Whether the access to a member of `base` may be to an object of a derived class that declares it again. A virtual
  /// member is the derived class's unless the object is a copy of the base's part.
  bool means_another(const Access& access, const clang::CXXRecordDecl& base) const {
    if ((access.object ? access.is_virtual : has_only_virtual(base, access.name)) && !copied_.count(&base))
      return false;
    return std::any_of(
               views_.begin(), views_.end(),
               [&](const View& view) { return view.base == &base && redeclares(*view.derived, base, access.name); }) ||
           std::any_of(own_classes_.begin(), own_classes_.end(), [&](Record derived) {
             return derived->isDerivedFrom(&base) && redeclares(*derived, base, access.name) &&
                    (access.is_written || hands_on(*derived, base));
           });
  }

  void add_expression(const clang::Expr& expr) {
    const auto* cast = llvm::dyn_cast<clang::CastExpr>(&expr);
    // An object of which a base's member is named.
    if (cast && cast->getCastKind() == clang::CK_UncheckedDerivedToBase) return;
    const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(&expr);
    if (const clang::Expr* object = call ? call->getImplicitObjectArgument() : nullptr) add_view(*object, expr);
    if (const auto* other = llvm::dyn_cast<clang::CallExpr>(&expr)) {
      add_lent(*other);
      add_passed_code(*other);
      if (const clang::FunctionDecl* callee = other->getDirectCallee())
        for (const clang::Expr* argument : other->arguments()) add_passed_object(*argument, *callee);
    }
    if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(&expr))
      for (const clang::Expr* argument : construct->arguments())
        add_passed_object(*argument, *construct->getConstructor());
    for (const clang::Stmt* child : expr.children())
      if (const auto* operand = llvm::dyn_cast_or_null<clang::Expr>(child)) add_view(*operand, expr);
    add_copies(expr);
    if (const auto* member = llvm::dyn_cast<clang::CXXDependentScopeMemberExpr>(&expr))
      accesses_.push_back({nullptr, member->getMember(), false, member->getMemberLoc(), ""});
  }

  void add_member(const clang::Expr& object, const clang::ValueDecl& member, clang::SourceLocation where) override {
    if (where.isInvalid()) where = object.getBeginLoc();  // of a call without a name, of a conversion function
    resolved_.insert(where);
    add_access(object.getType(), member, where, "", !in_instance_ && has_written_type(object));
  }
  void add_access(clang::QualType object, const clang::ValueDecl& member, clang::SourceLocation where,
                  const std::string& in, bool is_written) {
    Record record = get_class(object);
    if (record && (!member.isImplicit() || is_assignment(member.getDeclName())) && is_of_base(*record))
      accesses_.push_back({record, member.getDeclName(), is_virtual(member), where, in, is_written});
  }

  /// Whether the type of `object` is one that code of the spec writes: in a cast, or for a variable or a field.
  bool has_written_type(const clang::Expr& object) const {
    const clang::Expr& bare = *object.IgnoreParenImpCasts();
    if (llvm::isa<clang::ExplicitCastExpr>(bare)) return true;
    if (const auto* op = llvm::dyn_cast<clang::UnaryOperator>(&bare)) return has_written_type(*op->getSubExpr());
    if (const auto* element = llvm::dyn_cast<clang::ArraySubscriptExpr>(&bare))
      return has_written_type(*element->getBase());
    if (const auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(&bare)) return has_written_type(*op->getArg(0));
    const clang::ValueDecl* decl = nullptr;
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&bare)) decl = name->getDecl();
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(&bare)) decl = member->getMemberDecl();
    const auto* variable = llvm::dyn_cast_or_null<clang::DeclaratorDecl>(decl);
    if (!variable || !is_own(*variable) || !variable->getTypeSourceInfo()) return false;
    if (variable->getTypeSourceInfo()->getType()->getContainedDeducedType()) return false;
    // An override takes what the base's method takes.
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(variable->getDeclContext());
    return llvm::isa<clang::FieldDecl, clang::VarDecl>(variable) && (!method || !method->size_overridden_methods());
  }

  void add_function(const clang::FunctionDecl& function, clang::SourceLocation where) override {
    const clang::FunctionDecl* pattern = function.getTemplateInstantiationPattern();
    if (!pattern || !is_declared_by_specs(*pattern)) return;
    if (is_own(*pattern)) return visit_instance(function);
    for (const NamedMember& one : instances_of_others_.of(function))
      add_access(one.object, *one.member, where, function.getNameAsString(), /*is_written=*/false);
  }
  void visit_instances(const clang::FunctionTemplateDecl& of_many) {
    for (const clang::FunctionDecl* one : of_many.specializations()) visit_instance(*one);
  }
  void visit_instance(const clang::FunctionDecl& instance) {
    const clang::FunctionDecl* definition = nullptr;
    if (!instance.getBody(definition)) return add_unread(instance);
    if (!instances_.insert(definition).second) return;
    const bool before = std::exchange(in_instance_, true);
    visit_code(*definition);
    in_instance_ = before;
  }

  void add_unread(const clang::FunctionDecl& instance) {
    const clang::FunctionDecl* pattern = instance.getTemplateInstantiationPattern();
    for (const clang::ParmVarDecl* parameter : instance.parameters())
      for (Record record : get_classes(parameter->getType()))
        if (pattern && is_of_base(*record)) unread_.push_back({pattern->getSourceRange(), record});
  }

  /// A function of another spec may pass the generic code that it is given to the library.
  void add_passed_code(const clang::CallExpr& call) {
    const clang::FunctionDecl* callee = call.getDirectCallee();
    if (!callee || !is_declared_by_specs(*callee) || is_own(*callee)) return;
    const clang::DeclarationName name = callee->getASTContext().DeclarationNames.getCXXOperatorName(clang::OO_Call);
    for (const clang::Expr* argument : call.arguments()) {
      Record code = get_class(argument->IgnoreParenImpCasts()->getType());
      if (!code || !is_own(*code)) continue;
      for (const clang::NamedDecl* one : code->lookup(name))
        if (llvm::isa<clang::FunctionTemplateDecl>(one)) unread_.push_back({one->getSourceRange(), nullptr});
    }
  }

  /// A function of the library may call what an object of the base has, such as its operators, and its end.
  void add_passed_object(const clang::Expr& argument, const clang::FunctionDecl& callee) {
    const clang::QualType type = argument.IgnoreParenImpCasts()->getType();
    Record seen = argument.getType()->isPointerType() ? nullptr : get_class(argument.getType());
    if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee)) {
      // A reference_wrapper takes the object as what it is. Other classes keep copies, or are functions.
      const auto* owner = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(method->getParent());
      if (owner && owner->getName() == "reference_wrapper" && !type->isPointerType())
        seen = get_class(owner->getTemplateArgs()[0].getAsType());
      else if (method->getOverloadedOperator() != clang::OO_Call)
        return;
    }
    if (!seen || !is_of_base(*seen) || !is_of_standard(callee) || only_passes_on(callee)) return;
    for (const clang::Decl* decl : seen->decls())
      if (const auto* member = llvm::dyn_cast<clang::ValueDecl>(decl);
          member && is_known_to_library(member->getDeclName()))
        add_access(clang::QualType(seen->getTypeForDecl(), 0), *member, argument.getBeginLoc(),
                   callee.getDeclName().isIdentifier() ? callee.getNameAsString() : "the library", false);
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
                             cast->getBeginLoc(), ""});
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

  const clang::NamespaceDecl& space_;
  InstanceMembers instances_of_others_;
  std::set<const clang::FunctionDecl*> instances_;  // of the spec's own templates, visited
  bool in_instance_ = false;
  std::vector<Record> own_classes_;
  std::vector<View> views_;
  std::vector<Access> accesses_;
  std::vector<Unread> unread_;
  std::set<clang::SourceLocation> resolved_;  // names of members of which an instance or the code says the class
  std::set<Record> copied_;  // bases of whose part of an object there may be copies; only membership is tested
  std::map<void*, std::vector<Record>> classes_;  // by type; looked up, never iterated
};

}  // namespace

std::vector<BaseView> base_views(const clang::NamespaceDecl& space) {
  BaseViews visitor(space);
  visitor.visit(&space);
  visitor.add_copies_by_bases();
  return visitor.found();
}

}  // namespace modgen
