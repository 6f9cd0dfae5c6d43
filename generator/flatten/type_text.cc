// Types in specs' code, with the flattened family's names.
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>

#include <cctype>

#include "generator/flatten/family.h"

namespace modgen {
namespace {

constexpr std::string_view kSpace = "modular::";

/// The family's name for a type such as "modular::alpha::AlphaMLPImpl".
std::string named(const Family& family, const std::string& type, const Level& level, const Entity& user) {
  const size_t space = kSpace.size(), name = type.find("::", space);
  if (name == std::string::npos) return type;
  const size_t end = std::min(type.find("::", name + 2), type.size());
  const std::string class_name = type.substr(name + 2, end - name - 2);
  const Spec* spec = family.specs().family(type.substr(space, name - space));
  if (!spec) return type;
  for (const Symbol* symbol : spec->symbols) {
    const bool is_record = symbol->record && symbol->record->getName() == class_name;
    const bool is_holder = symbol->holder && symbol->holder->getName() == class_name;
    const bool is_enum = symbol->kind == Symbol::Kind::value && symbol->name == class_name;
    if (!is_record && !is_holder && !is_enum) continue;
    const std::string& library = family.library_type(*symbol, level);
    const std::string own = !library.empty()         ? library
                            : symbol == level.symbol ? user.name
                                                     : family.name_for(*symbol, level);
    const bool is_impl = is_record && symbol->kind == Symbol::Kind::module_class;
    return own + (is_impl ? "Impl" : "") + type.substr(end);
  }
  return type;
}

/// The canonical text of `type`, with the family's names.
std::string renamed_text(const Family& family, clang::QualType type, const Level& level, const Entity& user) {
  clang::PrintingPolicy policy(family.specs().compiler().getLangOpts());
  policy.adjustForCPlusPlus();
  policy.SuppressTagKeyword = true;
  const std::string text = type.getCanonicalType().getUnqualifiedType().getAsString(policy);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t found = text.find(kSpace, at);
    result += text.substr(at, found - at);
    if (found == std::string::npos) break;
    size_t end = found;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' || text[end] == ':'))
      ++end;
    result += named(family, text.substr(found, end - found), level, user);
    at = end;
  }
  return result;
}

}  // namespace

std::string Family::type_text(clang::QualType type, const Level& level, const Entity& user) const {
  return renamed_text(*this, type.getNonReferenceType(), level, user);
}

std::string Family::parameter_types(const clang::FunctionDecl& function, const Level& level, const Entity& user,
                                    unsigned number) const {
  std::string text;
  for (const clang::ParmVarDecl* parameter : function.parameters().take_front(number))
    text += renamed_text(*this, parameter->getType(), level, user) + ",";
  return text;
}
std::string Family::parameter_types(const clang::FunctionDecl& function, const Level& level, const Entity& user) const {
  return parameter_types(function, level, user, function.getNumParams());
}

}  // namespace modgen
