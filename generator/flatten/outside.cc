#include "generator/flatten/outside.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <string_view>

#include "generator/source/slices.h"

namespace modgen {
namespace {

bool is_pure(const clang::FunctionDecl& declaration) {
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&declaration);
  return method && method->isPureVirtual();
}

bool has_default_arguments(const clang::TemplateParameterList& parameters) {
  return std::ranges::any_of(parameters, [](const clang::NamedDecl* parameter) {
    if (const auto* type = llvm::dyn_cast<clang::TemplateTypeParmDecl>(parameter)) return type->hasDefaultArgument();
    const auto* value = llvm::dyn_cast<clang::NonTypeTemplateParmDecl>(parameter);
    return !value || value->hasDefaultArgument();
  });
}

/// Whether C++ allows the body after the class, and the later stages find it there.
bool can_follow_its_class(const Entity& entity, const clang::FunctionDecl& declaration) {
  if (!llvm::isa<clang::CXXMethodDecl>(declaration) || llvm::isa<clang::CXXConstructorDecl>(declaration)) return false;
  const clang::Stmt* body = declaration.getBody();
  if (declaration.getBeginLoc().isMacroID() || declaration.getLocation().isMacroID() || !body ||
      body->getBeginLoc().isMacroID() || body->getEndLoc().isMacroID())
    return false;
  // Weaving may wrap a module's forward where it is declared.
  if (entity.is_module() && declaration.getNameAsString() == "forward") return false;
  const auto* pattern = declaration.getDescribedFunctionTemplate();
  return !declaration.isConstexpr() && !deduces_result(declaration) &&
         !(pattern && has_default_arguments(*pattern->getTemplateParameters()));
}

/// The names of the types that the classes of `entity` declare.
std::set<std::string> member_types(const Entity& entity) {
  std::set<std::string> names;
  for (const Level& level : entity.levels)
    for (const clang::Decl* decl : level.symbol->record->decls())
      if (const auto* type = llvm::dyn_cast<clang::TypeDecl>(decl);
          type && !type->isImplicit() && type->getIdentifier())
        names.insert(type->getName().str());
  return names;
}

}  // namespace

bool deduces_result(const clang::FunctionDecl& function) {
  const clang::QualType result = function.getDeclaredReturnType();
  return !result.isNull() && result->getContainedDeducedType();
}

SourceSpan pure_specifier(const Family& family, const clang::FunctionDecl& declaration) {
  const SourceSpan whole = family.parsed().span(family.specs().manager(), declaration);
  if (!is_pure(declaration)) return {whole.file, whole.end, whole.end};
  const uint32_t name = family.parsed().token(family.specs().manager(), declaration.getLocation()).end;
  uint32_t equals = whole.end;
  for (const RawToken& token : raw_tokens(family.file_text(whole.file), name, whole.end))
    if (token.end == token.begin + 1 && family.file_text(whole.file)[token.begin] == '=') equals = token.begin;
  return {whole.file, equals, whole.end};
}

MovableBody::MovableBody(Entity& entity, size_t level, const clang::FunctionDecl& declaration, std::string name)
    : entity_(entity) {
  if (!can_follow_its_class(entity, declaration)) return;
  entity.methods.push_back({&declaration, level, std::move(name), {}});
  method_ = &entity.methods.back();
  number_ = static_cast<uint32_t>(entity.methods.size());
}

void MovableBody::add_values(Family& family, const clang::FunctionDecl& definition) {
  if (!method_ || &definition == method_->declaration) return;
  const auto add = [&](clang::QualType type, clang::SourceRange range) {
    if (type->isReferenceType() || type->isPointerType() || range.isInvalid() || range.getBegin().isMacroID()) return;
    render([&] {
      const SourceSpan where = family.parsed().span(family.specs().manager(), range);
      return family.render(where, entity_.levels[method_->level], entity_);
    });
  };
  add(definition.getReturnType(), definition.getReturnTypeSourceRange());
  for (const clang::ParmVarDecl* parameter : definition.parameters())
    add(parameter->getType(), parameter->getSourceRange());
}

Fragment definition_outside(Family& family, Entity& entity, size_t number) {
  const Entity::Method& method = entity.methods[number - 1];
  const clang::FunctionDecl& declaration = *method.declaration;
  const auto* pattern = declaration.getDescribedFunctionTemplate();
  const Parsed& parsed = family.parsed();
  const clang::SourceManager& manager = family.specs().manager();
  SourceSpan head = parsed.span(manager, pattern ? static_cast<const clang::Decl&>(*pattern) : declaration);
  const std::string& source = family.file_text(head.file);
  const SourceSpan name = parsed.token(manager, declaration.getLocation());
  head.end = pure_specifier(family, declaration).begin;
  if (declaration.doesThisDeclarationHaveABody())
    head.end = parsed.span(manager, declaration.getBody()->getSourceRange()).begin;

  const std::string owner = entity.name + (entity.is_module() ? "Impl" : "") + "::";
  std::vector<Replacement> changes;
  const auto replace = [&](uint32_t begin, uint32_t end, const std::string& text) {
    Fragment changed;
    changed.add(text, {head.file, begin, end});
    changes.push_back({{head.file, begin, end}, changed});
  };
  // Words that only the declaration has, and types of the class, which are unknown before its name.
  static const std::set<std::string_view> kOfDeclarations = {"virtual", "static", "explicit", "inline"};
  const std::set<std::string> types = member_types(entity);
  bool is_qualified = false;
  for (const RawToken& token : raw_tokens(source, head.begin, name.begin)) {
    const std::string word = source.substr(token.begin, token.end - token.begin);
    if (token.kind == RawToken::Kind::comment) continue;
    if (kOfDeclarations.contains(word)) replace(token.begin, token.end, "");
    if (types.contains(word) && !is_qualified) replace(token.begin, token.begin, owner);
    is_qualified = word == "::";
  }
  if (method.name.empty())
    replace(name.begin, name.begin, owner);
  else
    replace(name.begin, name.end, owner + method.name);
  for (const clang::ParmVarDecl* parameter : declaration.parameters()) {
    if (!parameter->hasDefaultArg()) continue;
    const SourceSpan value = parsed.span(manager, parameter->getDefaultArgRange());
    uint32_t equals = value.begin;
    for (const RawToken& token : raw_tokens(source, parsed.span(manager, *parameter).begin, value.begin))
      if (token.end == token.begin + 1 && source[token.begin] == '=') equals = token.begin;
    replace(equals, value.end, "");
  }
  for (const auto* attribute : declaration.attrs())
    if (llvm::isa<clang::OverrideAttr, clang::FinalAttr>(attribute)) {
      const SourceSpan word = parsed.span(manager, attribute->getRange());
      replace(word.begin, word.end, "");
    }

  Fragment text;
  if (!pattern) text.add("inline ");
  text.append(family.render(head, entity.levels[method.level], entity, {}, std::move(changes)).trimmed());
  text.add(" ");
  text.append(entity.text.part(static_cast<uint32_t>(number)).trimmed());
  return text;
}

}  // namespace modgen
