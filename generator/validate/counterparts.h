// What declarations and types of the specs are in the flattened family.
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

  /// The declaration of a spec that the flattened one was made from; null where it comes from none.
  const clang::NamedDecl* origin(const clang::NamedDecl& flattened) const;
  /// Where the text at a flattened place was written.
  SourceSpan origin(clang::SourceLocation flattened) const;
  /// The entity that a flattened class or function is.
  const Entity* entity(const clang::NamedDecl& flattened) const;
  /// Where `origin`'s code stands in the family.
  Context context(const Entity& entity, const clang::Decl& origin) const;

  /// Whether `flattened` is what code in `context` means by `named`, a declaration that is no local variable.
  /// `exactly`: the base's own, as a qualified name says, and not what the family redefines.
  bool is_meant(const clang::NamedDecl& flattened, const clang::NamedDecl& named, const Context& context,
                bool exactly) const;

  /// The constant that the family's config has where `spec` names a bool of a config; null where it has a field.
  const clang::VarDecl* constant(const clang::Expr& spec, const Context& context) const;

  /// Types as the family spells them, comparable between specs and flattened text.
  std::string type_of_spec(clang::QualType type, const Context& context) const;
  std::string type_of_flattened(clang::QualType type) const;

  const clang::SourceManager& manager() const { return family_.specs().manager(); }
  const Family& family() const { return family_; }
  SourceSpan place(clang::SourceLocation location) const { return family_.parsed().token(manager(), location); }

 private:
  void add(const clang::Decl& decl);
  bool belongs_to(const Entity& user, const Symbol& symbol, const Context& context) const;
  std::string strip(std::string type) const;

  const Family& family_;
  const Fragment& text_;
  uint32_t file_;
  std::map<std::pair<uint32_t, uint32_t>, const clang::NamedDecl*> declared_;  // in specs, by the place of the name
  std::map<std::string, const Entity*> entities_;
  mutable std::map<const void*, std::string> flattened_types_;  // by canonical type; looked up, never walked
  mutable std::map<std::pair<const void*, const Level*>, std::string> spec_types_;  // likewise
};

}  // namespace modgen
