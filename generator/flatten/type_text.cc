// Types in specs' code, with the flattened family's names.
#include <clang/AST/Decl.h>

#include "generator/flatten/family.h"
#include "generator/resolve/signatures.h"

namespace modgen {
namespace {

/// The canonical text of `type`, with the family's names.
std::string renamed_text(const Family& family, clang::QualType type, const Level& level, const Entity& user) {
  return text_of_type(family.specs(), type, [&](const Symbol& symbol, bool is_record) {
    const std::string& library = family.library_type(symbol, level);
    const std::string own = !library.empty()          ? library
                            : &symbol == level.symbol ? user.name
                                                      : family.name_for(symbol, level);
    const bool is_impl = is_record && symbol.kind == Symbol::Kind::module_class;
    return own + (is_impl ? "Impl" : "");
  });
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
