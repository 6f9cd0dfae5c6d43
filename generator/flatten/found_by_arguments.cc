// Functions that no code names, because C++ finds them by their arguments: operators, and what templates call.
#include <clang/AST/Decl.h>

#include <algorithm>
#include <string_view>

#include "generator/flatten/family.h"
#include "generator/resolve/signatures.h"

namespace modgen {
namespace {

/// Whether the standard library calls functions of that name for objects of any class.
bool is_called_by_libraries(std::string_view name) {
  static const std::set<std::string_view> names = {"begin", "end",  "rbegin",    "rend",     "size",
                                                   "data",  "swap", "iter_swap", "iter_move"};
  return names.contains(name);
}

/// Whether a template's parameter of that type takes objects of any class.
bool takes_every_class(clang::QualType type) {
  return type.getNonReferenceType().getCanonicalType()->isTemplateTypeParmType();
}

/// Whether a parameter of `symbol`, a function, is, leads to or holds objects of `taken`.
bool takes(const Specs& specs, const Symbol& symbol, const Symbol& taken) {
  return std::ranges::any_of(symbol.decls, [&](const clang::NamedDecl* decl) {
    return std::ranges::any_of(decl->getAsFunction()->parameters(), [&](const clang::ParmVarDecl* parameter) {
      if (takes_every_class(parameter->getType())) return symbol.spec == taken.spec;
      return std::ranges::count(symbols_in_type(specs, parameter->getType()), &taken) != 0;
    });
  });
}

}  // namespace

/// Adds the functions for objects of `entity`, a class or an enum, that C++ finds by their arguments: those in the
/// namespaces of its classes.
void Family::add_found_by_arguments(Entity& entity) {
  const auto is_found = [&](const Symbol& function) {
    if (!function.signature.text.empty() || is_called_by_libraries(function.name)) return true;
    return std::ranges::any_of(specs_.all(), [&](const auto& spec) {
      return spec_.sees(*spec) && spec->called_by_arguments.contains(function.name);
    });
  };
  for (size_t index = 0; index < entity.levels.size(); ++index) {
    const Level& level = entity.levels[index];
    for (const Symbol* function : level.symbol->spec->symbols) {
      const auto takes_this = [&](const Level& one) { return takes(specs_, *function, *one.symbol); };
      if (function->kind != Symbol::Kind::function || !is_found(*function) ||
          std::none_of(entity.levels.begin() + static_cast<long>(index), entity.levels.end(), takes_this))
        continue;
      cause_ = entity.cause;
      Entity* const found = resolve(*function, level);
      if (found == &entity) continue;
      entity.found_by_arguments.push_back(found);
      check_replaced(*function, *found, level, entity);
    }
  }
}

/// Rejects a function of the family that replaces `function` by its name, but not for objects of `entity`, for which
/// libraries and templates may call it.
void Family::check_replaced(const Symbol& function, const Entity& found, const Level& level, const Entity& entity) {
  const Level& there = found.levels.front();
  if (there.symbol == &function) return;
  const auto is_replaced = [&](const clang::NamedDecl* decl) {
    const std::string types = parameter_types(*decl->getAsFunction(), level, entity);
    return std::ranges::any_of(there.symbol->decls, [&](const clang::NamedDecl* other) {
      const clang::FunctionDecl* replacement = other->getAsFunction();
      return replacement && parameter_types(*replacement, there, found) == types;
    });
  };
  if (std::ranges::all_of(function.decls, is_replaced)) return;
  const SourceSpan where = there.symbol->spec == &spec_ ? there.symbol->where : entity.cause;
  if (!reported_.insert({where.file, where.begin}).second) return;
  specs_.reject(where,
                "'" + found.name + "' replaces the '" + function.name +
                    "' that libraries or templates may call for objects of '" + entity.name +
                    "', with other parameters",
                "declare it with the parameters of the one that it replaces, too, or give it another name",
                {{Diagnostic::Severity::note, function.where, "the one that it replaces", "", {}}});
}

}  // namespace modgen
