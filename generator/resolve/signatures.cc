#include "generator/resolve/signatures.h"

#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/PrettyPrinter.h>
#include <clang/Frontend/CompilerInstance.h>

#include <cctype>
#include <string_view>

namespace modgen {
namespace {

constexpr std::string_view kSpace = "modular::";

/// `type`, a name such as "modular::alpha::AlphaMLPImpl", with what `name` gives for it.
std::string named(const Specs& specs, const std::string& type, NameOfType name) {
  const size_t space = kSpace.size(), at = type.find("::", space);
  const Spec* spec = at == std::string::npos ? nullptr : specs.family(type.substr(space, at - space));
  if (!spec) return type;
  if (at + 2 == type.size()) return "";  // of a closure, whose type has no name
  const size_t end = std::min(type.find("::", at + 2), type.size());
  const std::string class_name = type.substr(at + 2, end - at - 2);
  for (const Symbol* symbol : spec->symbols) {
    const bool is_record = symbol->record && symbol->record->getName() == class_name;
    const bool is_holder = symbol->holder && symbol->holder->getName() == class_name;
    const bool is_enum = symbol->kind == Symbol::Kind::value && symbol->name == class_name;
    if (is_record || is_holder || is_enum) return name(*symbol, is_record) + type.substr(end);
  }
  return type;
}

}  // namespace

std::string text_of_type(const Specs& specs, clang::QualType type, NameOfType name) {
  clang::PrintingPolicy policy(specs.compiler().getLangOpts());
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
    result += named(specs, text.substr(found, end - found), name);
    at = end;
  }
  return result;
}

std::string name_of_function(const Specs& specs, const clang::FunctionDecl& function) {
  std::string text = function.getNameAsString();
  if (!function.isOverloadedOperator()) return text;
  text += "(";
  for (const clang::ParmVarDecl* parameter : function.parameters()) {
    if (text.back() != '(') text += ", ";
    clang::PrintingPolicy policy(specs.compiler().getLangOpts());
    policy.adjustForCPlusPlus();
    policy.SuppressTagKeyword = policy.SuppressScope = true;
    text += parameter->getType().getCanonicalType().getUnqualifiedType().getAsString(policy);
  }
  return text + ")";
}

Signature get_signature(const Specs& specs, const clang::FunctionDecl& function) {
  Signature signature;
  if (!function.isOverloadedOperator()) return signature;
  signature.text = function.getNameAsString();
  for (const clang::ParmVarDecl* parameter : function.parameters())
    signature.text += "," + text_of_type(specs, parameter->getType(), [&](const Symbol& symbol, bool) {
                        signature.classes.push_back(&symbol);
                        return std::string("%");
                      });
  return signature;
}

std::vector<const Symbol*> symbols_in_type(const Specs& specs, clang::QualType type) {
  std::vector<const Symbol*> symbols;
  text_of_type(specs, type, [&](const Symbol& symbol, bool) {
    symbols.push_back(&symbol);
    return std::string();
  });
  return symbols;
}

}  // namespace modgen
