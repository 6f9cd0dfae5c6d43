// Templates in a flattened body and the spec's: the functions that a dependent call may choose, and instances.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Sema.h>

#include <algorithm>

#include "generator/validate/match.h"

namespace modgen {

bool Match::overloads(const clang::OverloadExpr& flattened, const clang::OverloadExpr& spec,
                      const BindingScope& scope) {
  const bool exactly = spec.getQualifier() && spec.getQualifier()->getAsType();
  const auto is_meant = [&](const clang::NamedDecl* here, const clang::NamedDecl* there) {
    return counterparts_.is_meant(*here->getUnderlyingDecl(), *there->getUnderlyingDecl(), scope.context, exactly);
  };
  const auto here = flattened.decls(), there = spec.decls();
  const bool same = std::all_of(there.begin(), there.end(),
                                [&](const clang::NamedDecl* one) {
                                  return std::any_of(here.begin(), here.end(), [&](const clang::NamedDecl* other) {
                                    return is_meant(other, one);
                                  });
                                }) &&
                    std::all_of(here.begin(), here.end(), [&](const clang::NamedDecl* one) {
                      return std::any_of(there.begin(), there.end(),
                                         [&](const clang::NamedDecl* other) { return is_meant(one, other); });
                    });
  return same || differs(flattened, "'" + spec.getName().getAsString() + "' names other functions than in the spec");
}

bool Match::instances(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const BindingScope& scope) {
  const auto* function = llvm::dyn_cast<clang::FunctionDecl>(&spec);
  const auto* other = llvm::dyn_cast<clang::FunctionDecl>(&flattened);
  const clang::FunctionDecl* pattern = function ? function->getTemplateInstantiationPattern() : nullptr;
  if (!pattern || !other || !other->getTemplateInstantiationPattern()) return true;
  const SourceSpan where = counterparts_.locate(pattern->getLocation());
  const SourceSpan from = counterparts_.origin(other->getTemplateInstantiationPattern()->getLocation());
  const bool is_same = from.file == where.file && from.begin == where.begin;
  const bool is_of_spec = where.file != 0 && counterparts_.family().specs().of_file(where.file);
  if (!is_same || !is_of_spec || !instances_.insert(function->getCanonicalDecl()).second) return true;
  const clang::FunctionDecl *definition = nullptr, *other_definition = nullptr;
  if (!function->getBody(definition)) return true;
  if (!other->getBody(other_definition)) {
    clang::Sema& sema = counterparts_.family().specs().compiler().getSema();
    sema.InstantiateFunctionDefinition(other->getLocation(), const_cast<clang::FunctionDecl*>(other));
    if (!other->getBody(other_definition)) return true;
  }
  Context context = scope.context;
  const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(other->getDeclContext());
  if (!owner || !owner->isLambda()) {
    const Entity* entity = owner ? counterparts_.entity(*owner) : counterparts_.entity(*other);
    if (!entity) return true;
    context = counterparts_.context(*entity, *pattern->getCanonicalDecl());
  }
  const bool redefined = redefined_;
  const bool same = bodies(*other_definition, *definition, {context, nullptr, {}});
  redefined_ = redefined;
  return same;
}

}  // namespace modgen
