// Objects of a base's class that code of a spec makes. Flattening makes one class of the base's and the spec's, so that
// they would be objects of the spec's class.
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <set>

#include "generator/resolve/object_types.h"
#include "generator/resolve/spec_reader.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

using Record = const clang::CXXRecordDecl*;

/// Whether an object of the class may differ from one of its base: it has other state, is made, copied or destroyed
/// otherwise, or a name or a virtual call means another member.
bool declares_difference(const clang::CXXRecordDecl& record) {
  const auto has_inherited = [&](clang::DeclarationName name) {
    return std::any_of(record.bases_begin(), record.bases_end(), [&](const clang::CXXBaseSpecifier& base) {
      Record from = get_class(base.getType());
      return from && from->hasMemberName(name);
    });
  };
  return std::any_of(record.decls_begin(), record.decls_end(), [&](const clang::Decl* decl) {
    if (decl->isImplicit() || llvm::isa<clang::UsingShadowDecl>(decl)) return false;
    if (const auto* use = llvm::dyn_cast<clang::UsingDecl>(decl))
      return use->getDeclName().getNameKind() != clang::DeclarationName::CXXConstructorName;
    if (llvm::isa<clang::FieldDecl, clang::CXXConstructorDecl, clang::CXXDestructorDecl>(decl)) return true;
    const auto* named = llvm::dyn_cast<clang::NamedDecl>(decl);
    return named && named->getDeclName() &&
           (!named->getDeclName().isIdentifier() || has_inherited(named->getDeclName()));
  });
}

/// Whether objects of `symbol`, which replaces `base`, may differ from those of `base`. An alias of a library's class
/// is what the spec's author wants to be made.
bool differs(const Symbol& symbol, const Symbol& base) {
  if (!symbol.library.empty()) return false;
  for (const Symbol* at = &symbol; at != &base; at = at->base)
    if (!at || at->under || (at->record && declares_difference(*at->record))) return true;
  return false;
}

/// Whether the function of a library is one such as std::make_unique, which makes an object of its first type.
bool makes_object(const clang::FunctionDecl& function) {
  return function.getDeclName().isIdentifier() &&
         (function.getName().starts_with("make_") || function.getName().starts_with("allocate_"));
}

/// Whether the method of a container makes elements of arguments that are none.
bool makes_elements(const clang::FunctionDecl& method) {
  if (const auto* subscript = llvm::dyn_cast<clang::CXXMethodDecl>(&method);
      subscript && subscript->getOverloadedOperator() == clang::OO_Subscript)
    return subscript->getParent()->getName().ends_with("map");
  return method.getDeclName().isIdentifier() &&
         (method.getName().starts_with("emplace") || method.getName() == "try_emplace" || method.getName() == "resize");
}

/// Whether the class only leads to objects, or has none: an iterator, an allocator, a comparison.
bool leads_to_objects(const clang::CXXRecordDecl& record) {
  static const std::set<llvm::StringRef> names = {"allocator", "default_delete", "less", "greater", "equal_to", "hash"};
  return llvm::isa<clang::ClassTemplateSpecializationDecl>(record) &&
         (names.count(record.getName()) || record.getName().ends_with("iterator") ||
          record.getName().ends_with("view"));
}

/// The classes of specs that an object of `type` consists of. A holder is a pointer.
std::vector<Record> held(clang::QualType type) {
  std::vector<Record> found;
  Record record = type.isNull() ? nullptr : get_class(type);
  if (!record || type->isArrayType() || !leads_to_objects(*record)) add_held(type, found);
  std::erase_if(found, [](Record one) { return held_by(*one) != nullptr; });
  return found;
}

/// Whether an instance of a spec's template makes an object of the class, one of its arguments. Where its body is not
/// known, it may.
bool makes(const clang::FunctionDecl& instance, const clang::CXXRecordDecl& record) {
  struct Finder : SyntaxVisitor {
    Record record = nullptr;
    std::set<const clang::FunctionDecl*> seen;
    bool found = false;

    bool is_it(clang::QualType type) const {
      const clang::CXXRecordDecl* one = type->getAsCXXRecordDecl();
      return one && one->getCanonicalDecl() == record->getCanonicalDecl();
    }
    bool takes_it(const clang::FunctionDecl& function) const {
      const auto* arguments = function.getTemplateSpecializationArgs();
      return arguments &&
             std::ranges::any_of(get_types(arguments->asArray()), [&](clang::QualType type) { return is_it(type); });
    }
    void look_in(const clang::FunctionDecl& function) {
      const clang::FunctionDecl* definition = nullptr;
      if (!seen.insert(function.getCanonicalDecl()).second) return;
      if (function.getBody(definition))
        visit(definition->getBody());
      else
        found = true;
    }
    bool VisitStmt(clang::Stmt* statement) override {
      const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(statement);
      const auto* list = llvm::dyn_cast<clang::InitListExpr>(statement);
      const auto* call = llvm::dyn_cast<clang::CallExpr>(statement);
      found |= construct && is_it(construct->getType()) && !construct->getConstructor()->isCopyOrMoveConstructor();
      found |= list && is_it(list->getType());
      const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
      if (callee && takes_it(*callee)) {
        if (is_declared_by_specs(*callee))
          look_in(*callee);
        else
          found |= makes_object(*callee);
      }
      return !found;
    }
  } finder;
  finder.record = &record;
  finder.look_in(instance);
  return finder.found;
}

class BaseObjects : public SyntaxVisitor {
 public:
  BaseObjects(const Specs& specs, const Spec& spec) : specs_(specs), spec_(spec) {}

  std::vector<BaseObject> find() {
    for (const clang::Decl* decl : spec_.space->decls()) {
      code_ = get_symbol(*decl);
      if (code_) visit(decl);
    }
    return std::move(found_);
  }

  bool VisitStmt(clang::Stmt* statement) override {
    if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(statement)) add_construct(*construct);
    if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(statement)) add_list(*list);
    if (const auto* call = llvm::dyn_cast<clang::CallExpr>(statement)) add_call(*call);
    return true;
  }
  bool VisitFieldDecl(clang::FieldDecl* field) override {
    add(field->getType(), field->getLocation());
    return true;
  }
  bool VisitVarDecl(clang::VarDecl* variable) override {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(variable->getDeclContext());
    // An override takes what the base's method takes.
    const bool is_parameter =
        llvm::isa<clang::ParmVarDecl>(variable) && (!method || !method->size_overridden_methods());
    if (is_parameter && !variable->getType()->isReferenceType()) add(variable->getType(), variable->getLocation());
    return true;
  }
  bool VisitCXXRecordDecl(clang::CXXRecordDecl* record) override {
    if (!record->isThisDeclarationADefinition() || record->getDeclContext()->isNamespace()) return true;
    for (const clang::CXXBaseSpecifier& base : record->bases())
      if (Record from = get_class(base.getType())) add(*from, base.getBaseTypeLoc());
    return true;
  }

 private:
  /// The symbol whose code `decl`, of the spec's namespace, is.
  const Symbol* get_symbol(const clang::Decl& decl) const {
    const clang::Decl* outermost = &decl;
    while (const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(outermost->getDeclContext())) outermost = owner;
    return specs_.symbol(outermost);
  }

  /// Records that code makes an object of the class, if that becomes one of another class.
  void add(const clang::CXXRecordDecl& record, clang::SourceLocation where,
           BaseObject::Kind kind = BaseObject::Kind::object) {
    const Symbol* symbol = specs_.symbol(&record);
    if (!symbol || symbol->spec == &spec_ || !symbol->is_class()) return;
    const Symbol* replacement = covering(spec_, *symbol, prefix_given(*code_, *symbol->spec));
    if (!replacement || !differs(*replacement, *symbol) || !known_.insert(where).second) return;
    found_.push_back({symbol, replacement, kind, where});
  }
  void add(clang::QualType type, clang::SourceLocation where, BaseObject::Kind kind = BaseObject::Kind::object) {
    for (Record record : held(type)) add(*record, where, kind);
  }

  void add_construct(const clang::CXXConstructExpr& construct, bool only_parts = false) {
    if (construct.getConstructionKind() != clang::CXXConstructionKind::Complete || construct.isTypeDependent()) return;
    const clang::Expr* first = construct.getNumArgs() > 0 ? construct.getArg(0)->IgnoreParenImpCasts() : nullptr;
    Record made = construct.getType()->isArrayType() ? nullptr : get_class(construct.getType());
    Record given = first && !first->getType()->isPointerType() ? get_class(first->getType()) : nullptr;
    if (construct.getConstructor()->isCopyOrMoveConstructor() && given) {
      if (made && made != given && given->isDerivedFrom(made) && !is_config(*made))
        add(*made, construct.getBeginLoc(), BaseObject::Kind::part);
      return;
    }
    if (only_parts) return;
    if (made)
      if (const clang::CXXRecordDecl* module = held_by(*made)) {
        const bool is_given = first && (first->getType()->isNullPtrType() ||
                                        (given && (held_by(*given) || given->getName() == "shared_ptr")));
        if (!is_given) add(*module, construct.getBeginLoc());
        return;
      }
    // A config that is made of another one is the same config.
    if (made && is_config(*made) && !first) add(*made, construct.getBeginLoc());
    add(construct.getType(), construct.getBeginLoc());
  }

  void add_list(const clang::InitListExpr& written) {
    const clang::InitListExpr& list =
        written.isSemanticForm() || !written.getSemanticForm() ? written : *written.getSemanticForm();
    if (list.getType().isNull() || list.isTypeDependent() || list.getType()->isVoidType()) return;
    Record made = list.getType()->isArrayType() ? nullptr : get_class(list.getType());
    if (!bases_.count(&list) && !list.isTransparent()) {
      if (made && is_config(*made)) add(*made, list.getBeginLoc());
      add(list.getType(), list.getBeginLoc());
    }
    unsigned index = 0;
    const unsigned bases = made ? made->getNumBases() : 0;
    for (const clang::Expr* value : list.inits()) {
      if (!value) continue;
      const clang::Expr* bare = value->IgnoreImplicit();
      const auto* inner = llvm::dyn_cast<clang::InitListExpr>(bare);
      if (inner && index < bases) bases_.insert(inner);  // the base's part of a new object, which is no object
      if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(bare))
        add_construct(*construct, /*only_parts=*/true);
      if (inner && !inner->isExplicit() && index >= bases) add_list(*inner);
      ++index;
    }
  }

  void add_call(const clang::CallExpr& call) {
    const clang::FunctionDecl* callee = call.getDirectCallee();
    if (!callee || callee->isDependentContext()) return;
    if (is_declared_by_specs(*callee)) return add_made_by_template(*callee, call.getBeginLoc());
    const auto* arguments = callee->getTemplateSpecializationArgs();
    if (arguments && makes_object(*callee))
      if (const auto types = get_types(arguments->asArray()); !types.empty()) add(types[0], call.getBeginLoc());
    const auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(&call);
    const auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(&call);
    const clang::Expr* object = member                                          ? member->getImplicitObjectArgument()
                                : op && llvm::isa<clang::CXXMethodDecl>(callee) ? op->getArg(0)
                                                                                : nullptr;
    if (!object || object->getType()->isPointerType()) return;
    const std::vector<Record> elements = held(object->IgnoreParenImpCasts()->getType());
    for (Record element : elements) {
      if (makes_elements(*callee)) add(*element, call.getBeginLoc());
      for (unsigned index = op ? 1 : 0; index < call.getNumArgs(); ++index) {
        const clang::QualType type = call.getArg(index)->IgnoreParenImpCasts()->getType();
        Record given = type->isPointerType() ? nullptr : get_class(type);
        // A container copies the base's part into its element.
        if (given && given != element && given->isDerivedFrom(element))
          add(*element, call.getArg(index)->getBeginLoc(), BaseObject::Kind::part);
      }
    }
  }

  /// Adds the classes among the template arguments of `callee`, an instance of a spec's template, of which it makes
  /// objects.
  void add_made_by_template(const clang::FunctionDecl& callee, clang::SourceLocation where) {
    const auto* arguments = callee.getTemplateSpecializationArgs();
    if (!arguments) return;
    for (const clang::QualType type : get_types(arguments->asArray()))
      if (Record record = type->getAsCXXRecordDecl(); record && makes(callee, *record))
        add(*record, where, BaseObject::Kind::argument);
  }

  const Specs& specs_;
  const Spec& spec_;
  const Symbol* code_ = nullptr;  // of the code that is visited
  std::set<const clang::InitListExpr*> bases_;
  std::set<clang::SourceLocation> known_;
  std::vector<BaseObject> found_;
};

}  // namespace

std::vector<BaseObject> base_objects(const Specs& specs, const Spec& spec) { return BaseObjects(specs, spec).find(); }

}  // namespace modgen
