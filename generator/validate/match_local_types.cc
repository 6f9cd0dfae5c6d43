// Local classes and enums of a flattened body and the spec's.
#include <clang/AST/DeclCXX.h>

#include "generator/validate/match.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

/// The written members of a type that have a meaning of their own.
std::vector<const clang::Decl*> get_members(const clang::TagDecl& type) {
  std::vector<const clang::Decl*> members;
  for (const clang::Decl* decl : type.decls())
    if (!decl->isImplicit() && !isa<clang::AccessSpecDecl, clang::EmptyDecl, clang::StaticAssertDecl>(decl))
      members.push_back(decl);
  return members;
}

}  // namespace

bool Match::local_type(const clang::TagDecl& flattened, const clang::TagDecl& spec, const BindingScope& scope) {
  // Types are compared by name.
  if (counterparts_.entity(flattened))
    return differs(flattened.getLocation(), "a local type has the name of another declaration of the family");
  const auto here = get_members(flattened), there = get_members(spec);
  if (flattened.getTagKind() != spec.getTagKind() || flattened.getDeclName() != spec.getDeclName() ||
      here.size() != there.size())
    return differs(flattened.getLocation(), "this type is declared differently than in the spec");
  local_types_[&spec] = &flattened;
  if (const auto* record = dyn_cast<clang::CXXRecordDecl>(&spec); record && record->hasDefinition()) {
    const auto& other = *llvm::cast<clang::CXXRecordDecl>(&flattened);
    if (!other.hasDefinition() || other.getNumBases() != record->getNumBases())
      return differs(flattened.getLocation(), "this class has other bases than in the spec");
    auto base = other.bases_begin();
    for (const clang::CXXBaseSpecifier& one : record->bases())
      if (counterparts_.type_of_flattened((base++)->getType()) !=
          counterparts_.type_of_spec(one.getType(), scope.context))
        return differs(flattened.getLocation(), "this class has other bases than in the spec");
  }
  // Bodies may name members that follow.
  for (size_t index = 0; index < here.size(); ++index) {
    const auto* member = dyn_cast<clang::ValueDecl>(there[index]);
    const auto* other = dyn_cast<clang::ValueDecl>(here[index]);
    if (member && other) locals_[member] = other;
  }
  for (size_t index = 0; index < here.size(); ++index)
    if (!local_member(*here[index], *there[index], scope)) return false;
  return true;
}

bool Match::local_member(const clang::Decl& flattened, const clang::Decl& spec, const BindingScope& scope) {
  if (flattened.getKind() != spec.getKind())
    return differs(flattened.getLocation(), "the spec has another kind of member here");
  if (const auto* type = dyn_cast<clang::TagDecl>(&spec))
    return local_type(*llvm::cast<clang::TagDecl>(&flattened), *type, scope);
  if (const auto* alias = dyn_cast<clang::TypedefNameDecl>(&spec))
    return counterparts_.type_of_flattened(llvm::cast<clang::TypedefNameDecl>(&flattened)->getUnderlyingType()) ==
               counterparts_.type_of_spec(alias->getUnderlyingType(), scope.context) ||
           differs(flattened.getLocation(), "this alias means another type than in the spec");
  const auto* member = dyn_cast<clang::ValueDecl>(&spec);
  if (!member) return differs(flattened.getLocation(), "modgen does not compare this member of a local type");
  const auto& other = *llvm::cast<clang::ValueDecl>(&flattened);
  if (const auto* constant = dyn_cast<clang::EnumConstantDecl>(member))
    return llvm::cast<clang::EnumConstantDecl>(other).getInitVal() == constant->getInitVal() ||
           differs(flattened.getLocation(), "this constant has another value than in the spec");
  if (!same_declared_type(other, *member, scope)) return false;
  if (const auto* field = dyn_cast<clang::FieldDecl>(member)) {
    const clang::Expr *initial = field->getInClassInitializer(),
                      *other_initial = llvm::cast<clang::FieldDecl>(other).getInClassInitializer();
    if (!initial != !other_initial)
      return differs(flattened.getLocation(), "this member is not initialized as in the spec");
    return !initial || expression(other_initial, initial, scope);
  }
  const auto* method = dyn_cast<clang::CXXMethodDecl>(member);
  if (!method) return differs(flattened.getLocation(), "modgen does not compare this member of a local type");
  const auto& other_method = *llvm::cast<clang::CXXMethodDecl>(&flattened);
  if (method->isDefaulted() || method->isDeleted())
    return (method->isDefaulted() == other_method.isDefaulted() && method->isDeleted() == other_method.isDeleted()) ||
           differs(flattened.getLocation(), "this method is declared differently than in the spec");
  if (const auto* constructor = dyn_cast<clang::CXXConstructorDecl>(method))
    return initializers_and_body(*llvm::cast<clang::CXXConstructorDecl>(&flattened), *constructor, scope);
  return bodies(other_method, *method, scope);
}

bool Match::initializers_and_body(const clang::CXXConstructorDecl& flattened, const clang::CXXConstructorDecl& spec,
                                  const BindingScope& scope) {
  parameters(flattened, spec);
  if (flattened.getNumCtorInitializers() != spec.getNumCtorInitializers())
    return differs(flattened.getLocation(), "this constructor has other initializers than in the spec");
  auto here = flattened.init_begin();
  for (const clang::CXXCtorInitializer* there : spec.inits()) {
    const clang::CXXCtorInitializer& other = **here++;
    const clang::FieldDecl *field = there->getAnyMember(), *other_field = other.getAnyMember();
    const bool is_same = there->isWritten() == other.isWritten() && !field == !other_field &&
                         (!field || field->getDeclName() == other_field->getDeclName());
    if (!is_same) return differs(other.getSourceLocation(), "the spec has another initializer here");
    if (there->isWritten() && !expression(other.getInit(), there->getInit(), scope)) return false;
  }
  return bodies(flattened, spec, scope);
}

bool Match::is_local_member(const clang::ValueDecl& flattened, const clang::ValueDecl& member) const {
  if (const auto known = locals_.find(&member); known != locals_.end()) return known->second == &flattened;
  // A member that Clang declares.
  const auto type = local_types_.find(member.getDeclContext());
  return type != local_types_.end() && type->second == flattened.getDeclContext() &&
         flattened.getDeclName() == member.getDeclName() && flattened.isImplicit() && member.isImplicit();
}

}  // namespace modgen
