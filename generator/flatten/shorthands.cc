#include "generator/flatten/family.h"

#include <clang/AST/DeclCXX.h>

namespace modgen {

const clang::VarDecl* folded_constant(const Entity& entity, const std::string& name) {
  const clang::VarDecl* constant = nullptr;
  for (const Level& level : entity.levels) {
    if (!level.symbol->record) continue;
    for (const clang::Decl* decl : level.symbol->record->decls()) {
      const auto* named = llvm::dyn_cast<clang::NamedDecl>(decl);
      if (!named || !named->getDeclName().isIdentifier() || named->getName() != name) continue;
      if (llvm::isa<clang::FieldDecl>(named)) return constant;
      const auto* variable = llvm::dyn_cast<clang::VarDecl>(named);
      if (!variable || !variable->isConstexpr() || !variable->getType()->isBooleanType()) return nullptr;
      if (!constant) constant = variable;
    }
  }
  return nullptr;
}

std::string folded_text(const clang::VarDecl& constant, const Reference& flag) {
  const clang::APValue* value = constant.evaluateValue();
  const std::string text = value && value->isInt() && value->getInt() != 0 ? "true" : "false";
  return flag.parameter.empty() ? text : "/*" + flag.parameter + "=*/" + text;
}

std::string Family::flag_text(const Reference& flag, const Level& level, Entity& user) {
  const std::string spelled(parsed().sources.text(flag.where));
  const Symbol* symbol = specs_.symbol(llvm::cast<clang::CXXRecordDecl>(flag.target->getDeclContext()));
  if (!symbol) return spelled;
  Entity& config = *meant(*symbol, level, user);
  const clang::VarDecl* constant = folded_constant(config, flag.target->getNameAsString());
  if (!constant) return spelled;
  if (flag.is_changed && reported_.insert({flag.where.file, flag.where.begin}).second) {
    const SourceSpan declared = parsed().token(specs_.manager(), constant->getLocation());
    const bool own = flag.where.file == spec_.file;
    specs_.reject(own ? flag.where : declared,
                  "'" + flag.target->getNameAsString() + "' is a constant of '" + config.name + "' but still changed",
                  own ? "rewrite this without it, or declare the field without static constexpr"
                      : "redefine the code that changes it, or declare the field without static constexpr",
                  {{Diagnostic::Severity::note,
                    own ? declared : flag.where,
                    own ? "it becomes a constant here" : "this inherited code changes it, or takes its address",
                    "",
                    {}}});
  }
  return folded_text(*constant, flag);
}

}  // namespace modgen
