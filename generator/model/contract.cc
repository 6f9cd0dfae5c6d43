#include "generator/model/read_body.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Expr.h>

namespace modgen {
namespace {

/// The declaration of `name` in namespace modular; null if it is not a `Declaration`.
template <class Declaration>
const Declaration* find(const clang::ASTContext& context, llvm::StringRef name) {
  const auto named = [&](const clang::DeclContext& scope, llvm::StringRef identifier) {
    return scope.lookup(clang::DeclarationName(&context.Idents.get(identifier)));
  };
  for (const clang::NamedDecl* space : named(*context.getTranslationUnitDecl(), "modular"))
    if (const auto* modular = llvm::dyn_cast<clang::NamespaceDecl>(space))
      for (const clang::NamedDecl* found : named(*modular, name))
        if (const auto* declaration = llvm::dyn_cast<Declaration>(found)) return declaration;
  return nullptr;
}

/// The text of a constant std::string_view, which libstdc++ keeps as a length and a pointer into a literal.
std::string get_text(const clang::APValue& view) {
  if (!view.isStruct() || view.getStructNumFields() != 2) return "";
  const clang::APValue &length = view.getStructField(0), &begin = view.getStructField(1);
  const auto* literal =
      begin.isLValue() && begin.getLValueBase() ? begin.getLValueBase().dyn_cast<const clang::Expr*>() : nullptr;
  const auto* string = llvm::dyn_cast_or_null<clang::StringLiteral>(literal);
  if (!length.isInt() || !string) return "";
  return string->getString().substr(0, length.getInt().getZExtValue()).str();
}

}  // namespace

std::vector<KnownTask> known_tasks(const clang::ASTContext& context) {
  std::vector<KnownTask> known;
  const auto* table = find<clang::VarDecl>(context, "kTasks");
  const clang::APValue* tasks = table && table->hasInit() ? table->evaluateValue() : nullptr;
  if (!tasks || !tasks->isStruct() || tasks->getStructNumFields() != 1) return known;
  // Positions of the members in Task.
  constexpr unsigned kName = 0, kLabels = 2, kCached = 6, kTexts = 7;
  constexpr int kEachRow = 1, kAnyTexts = 0;
  const clang::APValue& rows = tasks->getStructField(0);
  for (unsigned i = 0; rows.isArray() && i < rows.getArrayInitializedElts(); ++i)
    if (const clang::APValue& row = rows.getArrayInitializedElt(i); row.isStruct() && row.getStructNumFields() > kTexts)
      known.push_back({get_text(row.getStructField(kName)), row.getStructField(kLabels).getInt() == kEachRow,
                       row.getStructField(kCached).getInt() != 0, row.getStructField(kTexts).getInt() == kAnyTexts});
  return known;
}

std::vector<std::pair<std::string, std::string>> config_field_types(const clang::ASTContext& context,
                                                                    Declarations& declarations) {
  std::vector<std::pair<std::string, std::string>> types;
  clang::PrintingPolicy as_written(context.getLangOpts());
  as_written.adjustForCPlusPlus();
  const auto* alias = find<clang::TypeAliasDecl>(context, "ConfigValue");
  const auto* variant = alias ? alias->getUnderlyingType()->getAs<clang::TemplateSpecializationType>() : nullptr;
  if (!variant) return types;
  for (const clang::TemplateArgument& argument : variant->template_arguments())
    if (const clang::QualType type = argument.getAsType()->getPointeeType();
        !type.isNull() && type.getAsString(as_written) != "NestedConfig")
      types.emplace_back(declarations.type_name(type), type.getAsString(as_written));
  return types;
}

}  // namespace modgen
