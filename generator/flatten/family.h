// The third stage, flatten: one family as text without inheritance.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <clang/AST/Type.h>

#include "generator/flatten/side_effects.h"
#include "generator/resolve/specs.h"
#include "generator/source/fragment.h"

namespace clang {
class CXXConstructorDecl;
class CXXCtorInitializer;
class CXXMethodDecl;
class ParmVarDecl;
}  // namespace clang

namespace modgen {

/// A family that code is inherited through, and the prefix that its classes get there.
struct Step {
  const Spec* family;
  std::string prefix;
  auto operator<=>(const Step&) const = default;
};

/// Code of one symbol as the flattened family sees it.
struct Level {
  const Symbol* symbol = nullptr;
  std::vector<Step> outward;  // nearest first, the flattened family last; empty in its own spec
  std::string prefix = {};    // that its family's classes get in the flattened family
  // Of the last level of Z in Both<Y, Z>: how many levels of Y follow in the place of its base, and how many of Z end
  // with it.
  size_t under = 0, over = 0;
};

/// What stands under one name in the flattened family.
struct Entity {
  std::string name;                  // of the holder where there is one: "GemmaMLP"
  const Symbol* declared = nullptr;  // in the family's spec; null where it is inferred
  std::vector<Level> levels;   // the classes that it is made of, most derived first; one level for what is no class
  std::vector<Entity*> needs;  // in the order in which its text names them
  SourceSpan cause;            // the code of the family's spec that asks for it
  std::map<std::string, SourceSpan> removed;  // members that a level removed, with the place
  struct NewMethod {
    std::string name, near;  // near: what an inherited method is called that has nearly that name
    SourceSpan where;
  };
  std::vector<NewMethod> new_methods;  // of the family's own class, that replace none
  Fragment text;
  bool is_module() const { return levels.front().symbol->kind == Symbol::Kind::module_class; }
};

/// What names of a body mean where it is written in another place than its own.
struct Substitution {
  std::map<const clang::NamedDecl*, Fragment> texts = {};  // of parameters: arguments; of variables: other names
  std::set<std::string> hidden = {};  // names that mean something else there: members are written this->name
};

/// A change to spec text while it is rendered; it takes precedence over the references in it.
struct Replacement {
  SourceSpan where;
  Fragment text;
};

/// A name of a family in a comment or string of inherited text that became this family's.
struct Renaming {
  SourceSpan where;
  std::string before, after;
};

class Family {
 public:
  Family(const Specs& specs, const Spec& spec);

  /// The flattened text. What it rejects is added to the remarks of the parse.
  Fragment flatten();

  const std::vector<Renaming>& renamings() const { return renamings_; }
  const std::deque<std::unique_ptr<Entity>>& entities() const { return entities_; }  // as they were reached
  const Spec& spec() const { return spec_; }

  // ---- For the parts of this stage ----------------------------------------------------------------------------------

  /// `span` of `level`'s spec with every reference renamed to this family.
  Fragment render(SourceSpan span, const Level& level, Entity& user, const Substitution& arguments = {},
                  std::vector<Replacement> replacements = {});
  /// The entity that `target` means in code of `level`.
  Entity* resolve(const Symbol& target, const Level& level);
  /// The name that `target` has in this family, in code of `level`; nothing is added to the family.
  std::string name_for(const Symbol& target, const Level& level) const;
  /// The qualified name of the class of libtorch or of the contract that `target` means in code of `level`; empty where
  /// it means one of the family.
  const std::string& library_type(const Symbol& target, const Level& level) const;
  /// The name of an inherited member that `level`'s code calls `name`; `owner` is the class that declares it.
  std::string member_name(const std::string& name, const Symbol& owner, const Level& level, const Entity& user) const;
  /// The canonical text of `type` in code of `level`, without const and reference and with classes of specs as this
  /// family names them: types that become the same type have the same text.  (type_text.cc)
  std::string type_text(clang::QualType type, const Level& level, const Entity& user) const;
  const Specs& specs() const { return specs_; }
  const Parsed& parsed() const { return specs_.parsed(); }
  const std::string& file_text(uint32_t file) const { return parsed().sources[file].text; }

 private:
  Entity* meant(const Symbol& symbol, const Level& level, Entity& user);
  struct Meaning {
    const Symbol* symbol;
    std::vector<Step> outward;
  };
  Meaning meaning(const Symbol& target, const Level& level) const;
  std::string get_prefix(const Spec& family, const std::vector<Step>& outward) const;
  Entity* declared(const Symbol& symbol);
  Entity* inferred(const Symbol& symbol, std::vector<Step> outward);
  Entity* inferred_by(const Symbol& symbol, std::vector<Step> outward);
  std::vector<Level> get_levels(const Symbol& first, std::vector<Step> outward) const;
  Entity* add(std::string name, const Symbol* declared, const Symbol& first, std::vector<Step> outward);
  bool same_code(const Symbol& a, const Symbol& b, std::set<const Symbol*> seen = {}) const;
  bool same_meaning(const Symbol& symbol, const std::vector<Step>& a, const std::vector<Step>& b,
                    std::set<const Symbol*> seen = {}) const;
  std::string reference_text(const Reference& reference, const Level& level, Entity& user);
  std::string registered_text(const std::string& registered, const Level& level, const Entity& user) const;
  std::string flag_text(const Reference& flag, const Level& level, Entity& user);
  void write(Entity& entity);
  void check_uses();
  void check_redefinitions();
  void warn() const;
  std::vector<Entity*> in_order();
  std::string includes() const;
  bool is_message(SourceSpan where) const;
  struct MemberNames {
    std::set<std::string> members, variables;
  };
  const MemberNames& names_around(const Entity& user);
  bool is_hidden(const Reference& reference, const Reference* before, const std::string& name,
                 const Substitution& arguments, Entity& user);
  std::string macro_definitions();
  std::string macro_name(const MacroDefinition& macro) const;
  std::vector<Replacement> directives_and_macros(SourceSpan span);

  struct Use {
    Entity* owner;
    std::string member;
    SourceSpan where;
  };

  const Specs& specs_;
  const Spec& spec_;
  std::deque<std::unique_ptr<Entity>> entities_;  // in the order in which they were reached
  // With the prefix that it gets; several where its code means something else on one way into the family than on
  // another.
  std::map<std::pair<const Symbol*, std::string>, std::vector<Entity*>> by_symbol_;
  std::map<std::pair<const Symbol*, std::vector<Step>>, Entity*> by_path_;  // what is inferred; looked up, never walked
  std::map<std::string, Entity*> by_name_;
  SourceSpan asking_;  // where the code that is rendered names something, as far as it is the family's own
  std::vector<Use> uses_;
  std::map<const Entity*, MemberNames>
      member_names_;         // of classes' members and of their functions' variables; looked up
  std::set<size_t> macros_;  // that rendered text uses, by their index
  std::vector<Renaming> renamings_;
  mutable std::set<const MemberName*> matched_;       // of the family's own; looked up, never walked
  std::set<std::pair<uint32_t, uint32_t>> reported_;  // places that an error was given for
};

/// Classes of the standard forms.  (class_text.cc)
Fragment class_text(Family& family, Entity& entity);

/// Super calls in a method's body, or in a constructor's initializers and body.  (super_calls.cc)
struct KeptMethod {
  std::string name;
  const void* origin;  // the base's method
  Fragment text;
};
struct Supers {
  std::vector<KeptMethod> kept;  // bodies of bases' methods under names of their own
  std::function<bool(const clang::CXXMethodDecl&)> is_redefined = {};  // else the flattened class has it as it is
};
std::vector<Replacement> super_calls(Family& family, Entity& entity, size_t level, const clang::Decl& method,
                                     const Substitution& arguments, Supers& supers);

/// What a call of a method by code of `entity` may run: the bodies that any of its levels gives to that name.
MethodsMeant methods_meant(const Entity& entity);

/// The names of the variables and parameters of `function`, those of its lambdas included.
std::set<std::string> names_declared(const clang::FunctionDecl& function);

/// The constructor `constructor` of level `index` with the constructors of its bases unravelled. `field_order` has the
/// class's fields; what a level after the one that `dropped` names for a field does to initialize it is left out.
/// (constructor.cc)
struct ConstructorContext {
  Family& family;
  Entity& entity;
  std::vector<std::string> field_order;
  std::map<std::string, size_t> dropped;
  Supers& supers;
};
Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice);

/// The statements of a body with what stands at them; the last slice is what stands before the closing brace.
std::vector<std::pair<const clang::Stmt*, SourceSpan>> statement_slices(const Family& family, const clang::Stmt& body);

}  // namespace modgen
