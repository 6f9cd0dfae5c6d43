// Inherited members that a declaration of the same name cannot replace.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include "generator/flatten/members.h"

namespace modgen {
namespace {

bool is_function(const Member& member) { return member.kind == Member::Kind::method; }

bool is_type(const Member& member) {
  return member.decl && llvm::isa<clang::TypeDecl, clang::ClassTemplateDecl, clang::TypeAliasTemplateDecl>(member.decl);
}

/// Whether both are names of one type.
bool are_same_aliases(const Family& family, const Entity& entity, const Member& inherited, const Member& member) {
  const auto* here = llvm::dyn_cast<clang::TypedefNameDecl>(member.decl);
  const auto* there = llvm::dyn_cast<clang::TypedefNameDecl>(inherited.decl);
  return here && there &&
         family.type_text(here->getUnderlyingType(), entity.levels[member.level], entity) ==
             family.type_text(there->getUnderlyingType(), entity.levels[inherited.level], entity);
}

}  // namespace

bool replaces_type(const Family& family, const Entity& entity, const Member& inherited, const Member& member) {
  return inherited.level != member.level && is_type(inherited) && is_type(member) &&
         !are_same_aliases(family, entity, inherited, member);
}

void check_replaced(const Family& family, const Entity& entity, const Member& inherited, const Member& member) {
  if (inherited.level == member.level || (is_type(inherited) && is_type(member))) return;
  const auto describe = [](const Member& one) {
    return std::string(is_function(one) ? "method" : is_type(one) ? "type" : "field");
  };
  // A method that inherited code calls cannot become a field that it reads, and vice versa.
  if (describe(inherited) == describe(member)) return;
  family.specs().reject(member.slice->core,
                        "'" + member.name + "' is a " + describe(member) + " here, and a " + describe(inherited) +
                            " of the class that '" + entity.name + "' derives from",
                        "rename it, because it would replace the inherited one",
                        {{Diagnostic::Severity::note, inherited.slice->core, "the inherited member", "", {}}});
}

void check_replaced_type(const Family& family, const Entity& entity, const ReplacedType& type,
                         const std::vector<Member>& members) {
  const auto is_meant = [&](const clang::Decl* target) {
    for (; target; target = llvm::dyn_cast_or_null<clang::Decl>(target->getDeclContext())) {
      const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(target);
      const clang::Decl* pattern = record ? record->getDescribedClassTemplate() : nullptr;
      for (const clang::Decl* one : {target, pattern})
        if (one && one->getCanonicalDecl() == type.inherited.decl->getCanonicalDecl()) return true;
      if (!target->getDeclContext() || target->getDeclContext()->isFileContext()) break;
    }
    return false;
  };
  for (const Member& member : members) {
    if (member.level <= type.level) continue;
    for (const Reference& reference : entity.levels[member.level].symbol->spec->references) {
      if (!member.slice->whole.contains(reference.where) || !is_meant(reference.target)) continue;
      family.specs().reject(type.where,
                            "'" + type.inherited.name + "' is another type of the class that '" + entity.name +
                                "' derives from, which inherited members name",
                            "rename it, because it would replace the inherited one",
                            {{Diagnostic::Severity::note, type.inherited.slice->core, "the inherited type", "", {}},
                             {Diagnostic::Severity::note, reference.where, "this names it", "", {}}});
      return;
    }
  }
}

}  // namespace modgen
