#include "generator/flatten/implicit_members.h"

#include <clang/AST/DeclCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Sema.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/members.h"
#include "generator/source/fixes.h"

namespace modgen {
namespace {

clang::Sema& sema_of(const Specs& specs) { return specs.compiler().getSema(); }

bool is_noexcept(const Specs& specs, const clang::FunctionDecl& function) {
  const auto* type = function.getType()->castAs<clang::FunctionProtoType>();
  type = sema_of(specs).ResolveExceptionSpec(function.getLocation(), type);
  return type && type->isNothrow();
}

/// Whether C++ makes an object of the class without arguments, and that throws nothing. A class without a default
/// constructor has an initializer elsewhere.
bool is_made_without_throwing(const Specs& specs, clang::QualType type) {
  const auto* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition()) return true;
  const clang::CXXMethodDecl* constructor = find_special_member(specs, *record, SpecialMember::default_constructor);
  return !constructor || is_noexcept(specs, *constructor);
}

/// A constructor, or a template of constructors.
const clang::CXXConstructorDecl* constructor_in(const Member& member) {
  const auto* function = member.decl ? member.decl->getAsFunction() : nullptr;
  return llvm::dyn_cast_or_null<clang::CXXConstructorDecl>(function);
}

SourceSpan location(const Family& family, const clang::Decl& decl) {
  return family.parsed().token(family.specs().manager(), decl.getLocation());
}

/// A class without constructors has to inherit its base's constructors explicitly, unless one needs no arguments.
void check_constructible(const Family& family, const Entity& entity, size_t level, const std::vector<Member>& members) {
  const Member* needs_arguments = nullptr;
  for (const Member& member : members)
    if (member.kind == Member::Kind::constructor) {
      if (special_member(member.decl) == SpecialMember::default_constructor) return;
      needs_arguments = &member;
    }
  if (!needs_arguments) return;
  const Symbol& symbol = *entity.levels[level].symbol;
  const std::string base = symbol.base->name + (symbol.base->kind == Symbol::Kind::module_class ? "Impl" : "");
  const auto open = family.parsed().token(family.specs().manager(), symbol.record->getBraceRange().getBegin());
  family.specs().reject(
      symbol.where, "'" + symbol.name + "' has no constructor: it does not inherit its base's",
      "add 'using " + base + "::" + base + ";' to its public section",
      {{Diagnostic::Severity::note, needs_arguments->slice->core, "the base's constructor", "", {}}},
      declare_public(family.parsed(), open, symbol.record->isStruct(), "using " + base + "::" + base + ";"));
}

}  // namespace

SpecialMember special_member(const clang::NamedDecl* member) {
  const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(member);
  if (!method) return SpecialMember::none;
  if (llvm::isa<clang::CXXDestructorDecl>(method)) return SpecialMember::destructor;
  if (method->isCopyAssignmentOperator()) return SpecialMember::copy_assignment;
  if (method->isMoveAssignmentOperator()) return SpecialMember::move_assignment;
  const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(method);
  if (!constructor) return SpecialMember::none;
  if (constructor->isDefaultConstructor()) return SpecialMember::default_constructor;
  if (constructor->isCopyConstructor()) return SpecialMember::copy_constructor;
  return constructor->isMoveConstructor() ? SpecialMember::move_constructor : SpecialMember::none;
}

bool declares(const clang::CXXRecordDecl& record, SpecialMember kind) {
  switch (kind) {
    case SpecialMember::none:
      return false;
    case SpecialMember::default_constructor:
      return record.hasUserDeclaredConstructor();
    case SpecialMember::copy_constructor:
      return record.hasUserDeclaredCopyConstructor();
    case SpecialMember::move_constructor:
      return record.hasUserDeclaredMoveConstructor();
    case SpecialMember::copy_assignment:
      return record.hasUserDeclaredCopyAssignment();
    case SpecialMember::move_assignment:
      return record.hasUserDeclaredMoveAssignment();
    case SpecialMember::destructor:
      return record.hasUserDeclaredDestructor();
  }
  return false;
}

const clang::CXXMethodDecl* find_special_member(const Specs& specs, const clang::CXXRecordDecl& record,
                                                SpecialMember kind) {
  clang::Sema& sema = sema_of(specs);
  auto* definition = record.getDefinition();
  if (!definition || definition->isDependentContext()) return nullptr;
  const auto find = [&]() -> const clang::CXXMethodDecl* {
    switch (kind) {
      case SpecialMember::none:
        return nullptr;
      case SpecialMember::default_constructor:
        return sema.LookupDefaultConstructor(definition);
      case SpecialMember::copy_constructor:
        return sema.LookupCopyingConstructor(definition, clang::Qualifiers::Const);
      case SpecialMember::move_constructor:
        return sema.LookupMovingConstructor(definition, 0);
      case SpecialMember::copy_assignment:
        return sema.LookupCopyingAssignment(definition, clang::Qualifiers::Const, false, 0);
      case SpecialMember::move_assignment:
        return sema.LookupMovingAssignment(definition, 0, false, 0);
      case SpecialMember::destructor:
        return sema.LookupDestructor(definition);
    }
    return nullptr;
  };
  const clang::CXXMethodDecl* found = find();
  return found && !found->isDeleted() ? found : nullptr;
}

bool initializes_without_throwing(const Specs& specs, const clang::CXXRecordDecl& record) {
  const auto is_safe = [&](const clang::FieldDecl* field) {
    if (!field->hasInClassInitializer()) return is_made_without_throwing(specs, field->getType());
    const clang::Expr* value = field->getInClassInitializer();
    return value && sema_of(specs).canThrow(value) == clang::CT_Cannot;
  };
  const auto is_safe_base = [&](const clang::CXXBaseSpecifier& base) {
    return specs.symbol(base.getType()->getAsCXXRecordDecl()) || is_made_without_throwing(specs, base.getType());
  };
  return std::all_of(record.field_begin(), record.field_end(), is_safe) &&
         std::all_of(record.bases_begin(), record.bases_end(), is_safe_base);
}

void inherit_special_members(const Family& family, const Entity& entity, size_t level, bool inherits_constructors,
                             std::vector<Member>& members) {
  const clang::CXXRecordDecl& record = *entity.levels[level].symbol->record;
  const bool declares_constructors = record.hasUserDeclaredConstructor();
  if (!declares_constructors && !inherits_constructors) check_constructible(family, entity, level, members);
  if (!inherits_constructors)
    std::erase_if(members, [&](const Member& member) {
      return constructor_in(member) && (declares_constructors || special_member(member.decl) == SpecialMember::none);
    });
  for (Member& member : members) {
    const SpecialMember kind = special_member(member.decl);
    if (kind == SpecialMember::none || declares(record, kind)) continue;
    const bool is_default = kind == SpecialMember::default_constructor;
    // In C++ a using-declaration inherits the base's, and does not make a class have one.
    if (is_default && declares_constructors) continue;
    if (!find_special_member(family.specs(), record, kind)) continue;  // of a private one, C++ makes none
    // With arguments, the inherited one stays, too.
    const bool has_arguments = is_default && llvm::cast<clang::CXXConstructorDecl>(member.decl)->getNumParams() > 0;
    if (is_default && !(inherits_constructors && has_arguments)) member.implied_by = level;
    if (member.access == clang::AS_protected) member.access = clang::AS_public;
  }
}

void hide_inherited_constructors(const Family& family, const Entity& entity, const Member& own,
                                 std::vector<Member>& members) {
  const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(own.decl);
  if (!constructor) return;
  const auto first_types = [&](const Member& member, unsigned number) {
    const auto& function = *llvm::cast<clang::CXXConstructorDecl>(member.decl);
    return family.parameter_types(function, entity.levels[member.level], entity, number);
  };
  std::erase_if(members, [&](const Member& inherited) {
    if (inherited.kind != Member::Kind::constructor || inherited.level <= own.level) return false;
    if (inherited.signature == own.signature) return true;
    const auto& other = *llvm::cast<clang::CXXConstructorDecl>(inherited.decl);
    const unsigned least = other.getMinRequiredArguments(), most = other.getNumParams();
    bool takes_some = false, takes_all = true;
    for (unsigned number = least; number <= most; ++number) {
      const bool takes = constructor->getMinRequiredArguments() <= number && number <= constructor->getNumParams() &&
                         first_types(own, number) == first_types(inherited, number);
      takes_some |= takes;
      takes_all &= takes;
    }
    if (takes_some && !takes_all)
      family.specs().reject(
          own.slice->core,
          "this takes the same arguments as a constructor that the class inherits; C++ prefers this one, and "
          "flattened, both fit",
          "declare the inherited parameters here, too, or inherit no constructors",
          {{Diagnostic::Severity::note, inherited.slice->core, "the inherited constructor", "", {}}});
    return takes_some;
  });
}

void check_exception_specifications(const Family& family, const Entity& entity, const std::vector<Member>& members) {
  const Symbol& symbol = *entity.levels.front().symbol;
  for (const Member& member : members) {
    const SpecialMember kind = special_member(member.decl);
    if (member.level == 0 || kind == SpecialMember::none || kind == SpecialMember::default_constructor) continue;
    const auto& function = *llvm::cast<clang::CXXMethodDecl>(member.decl);
    if (function.getExceptionSpecSourceRange().isInvalid() || !cannot_throw(function)) continue;
    const clang::CXXMethodDecl* own = find_special_member(family.specs(), *symbol.record, kind);
    if (!own || is_noexcept(family.specs(), *own)) continue;
    family.specs().reject(symbol.where,
                          "C++ lets exceptions of this class's fields leave a member that the base declares noexcept",
                          "remove noexcept there: where the fields allow it, '= default' implies it",
                          {{Diagnostic::Severity::note, location(family, function), "the base's member", "", {}}});
  }
}

}  // namespace modgen
