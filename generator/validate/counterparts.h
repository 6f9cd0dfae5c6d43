// Maps declarations and types of the specs to the flattened family.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "generator/flatten/family.h"

namespace modgen {

/// Code of a spec as part of a class of the family.
struct Context {
  const Entity* entity = nullptr;
  const Level* level = nullptr;
};

class Counterparts {
 public:
  Counterparts(const Family& family, const Fragment& text, uint32_t file);

  /// The declaration of a spec that a flattened one comes from; null if it comes from none.
  const clang::NamedDecl* origin(const clang::NamedDecl& flattened) const;
  /// The location in a spec of a flattened location.
  SourceSpan origin(clang::SourceLocation flattened) const;
  /// The entity of a flattened class or function.
  const Entity* entity(const clang::NamedDecl& flattened) const;
  /// The context of `origin`'s code in the family.
  Context context(const Entity& entity, const clang::Decl& origin) const;

  /// Whether `named`, a declaration that is not a local variable, refers to `flattened` in code of `context`.
  /// `exactly`: only the base's own declaration counts, as for a qualified name, not the family's redefinition.
  bool is_meant(const clang::NamedDecl& flattened, const clang::NamedDecl& named, const Context& context,
                bool exactly) const;

  /// The constant in the family's config if `spec` names a bool of a config; null if the config has a field.
  const clang::VarDecl* constant(const clang::Expr& spec, const Context& context) const;

  /// Types with the family's names, comparable between specs and flattened text.
  std::string type_of_spec(clang::QualType type, const Context& context) const;
  std::string type_of_flattened(clang::QualType type) const;

  const clang::SourceManager& manager() const { return family_.specs().manager(); }
  const Family& family() const { return family_; }
  SourceSpan locate(clang::SourceLocation location) const { return family_.parsed().token(manager(), location); }

 private:
  void add(const clang::Decl& decl);
  /// Whether `own`, a function or constant of a spec, or a friend, is what the family has for `base` in code of
  /// `context`.
  bool replaces(const clang::NamedDecl& own, const clang::NamedDecl& base, const Context& context) const;
  /// The key of a function in entities_: of an operator, the types of its parameters are part of it.
  std::string key(const clang::FunctionDecl& function, const Level& level, const Entity& user) const;
  bool belongs_to(const Entity& user, const Symbol& symbol, const Context& context) const;
  std::string strip(std::string type) const;

  const Family& family_;
  const Fragment& text_;
  uint32_t file_;
  std::map<std::pair<uint32_t, uint32_t>, const clang::NamedDecl*>
      declared_;  // declarations of specs, by the location of the name
  std::map<std::string, const Entity*> entities_;
  mutable std::map<const void*, std::string> flattened_types_;  // keyed by canonical type; looked up, never iterated
  mutable std::map<std::pair<const void*, const Level*>, std::string> spec_types_;  // likewise
};

}  // namespace modgen
