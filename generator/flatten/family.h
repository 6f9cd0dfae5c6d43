// The third stage, flatten: renders one family as text without inheritance.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
class FunctionDecl;
class ParmVarDecl;
class VarDecl;
}  // namespace clang

namespace modgen {

/// A family through which code is inherited, and the prefix of its classes there.
struct Step {
  const Spec* family;
  std::string prefix;
  auto operator<=>(const Step&) const = default;
};

/// Code of one symbol as the flattened family sees it.
struct Level {
  const Symbol* symbol = nullptr;
  std::vector<Step> outward;  // nearest first, the flattened family last; empty in its own spec
  std::string prefix = {};    // prefix of its family's classes in the flattened family
  // For the last level of Z in Both<Y, Z>: the number of levels of Y that follow as its base, and the number of levels
  // of Z that end with it.
  size_t under = 0, over = 0;
};

struct Entity;

/// Entities that a part of the family's text names. The sets have no order.
struct Named {
  std::set<Entity*> all;
  std::set<Entity*> complete;    // those that a spec defines before it names them, or whose members it names
  std::set<std::string> values;  // the names of those that the functions that it calls take or return as values
};

/// A class, function or constant of the flattened family, by name.
struct Entity {
  std::string name;                           // the holder's name if it has one: "GemmaMLP"
  const Symbol* declared = nullptr;           // symbol of the family's spec; null if inferred
  std::vector<Level> levels;                  // its classes, most derived first; one level if it is not a class
  std::vector<Entity*> needs;                 // in the order in which its text names them
  std::vector<Entity*> found_by_arguments;    // functions for objects of it that code need not name
  SourceSpan cause;                           // code of the family's spec that needs it
  std::map<std::string, SourceSpan> removed;  // members that a level removed, with the location
  std::set<const clang::Decl*> hidden;        // methods of bases that are left out because C++ hides them
  struct NewMethod {
    std::string name, near;  // near: an inherited method with a similar name
    SourceSpan where;
  };
  std::vector<NewMethod> new_methods;  // methods of the family's own class that replace none
  struct Part {
    bool is_declaration;  // of a function that another part defines
    const Slice* slice;
    Fragment text;
  };
  std::vector<Part> parts;  // of `text`, if this is no class
  /// A method whose body may follow the class.
  struct Method {
    const clang::FunctionDecl* declaration;  // in its class
    size_t level;
    std::string name;  // its name in the flattened class; empty if it is that of the declaration
    Named named;       // by the body
    bool is_outside = false;
  };
  std::deque<Method> methods;  // the body of the first is part 1 of `text`, and so on
  Method* inside = nullptr;    // the one whose body is being rendered
  Named around;                // by what is not in the bodies of `methods`
  Fragment text;
  bool is_module() const { return levels.front().symbol->kind == Symbol::Kind::module_class; }
};

/// Meanings of a body's names when its text moves elsewhere.
struct Substitution {
  std::map<const clang::NamedDecl*, Fragment> texts = {};  // arguments of parameters, new names of variables
  std::set<std::string> hidden = {};  // names with another meaning there: members are written this->name
};

/// A change to spec text during rendering; it takes precedence over the references in the text.
struct Replacement {
  SourceSpan where;
  Fragment text;
};

/// A family's name in a comment or string of inherited text that became this family's name.
struct Renaming {
  SourceSpan where;
  std::string before, after;
};

class Family {
 public:
  Family(const Specs& specs, const Spec& spec);

  /// The flattened text. Errors are added to the remarks of the parse.
  Fragment flatten();

  const std::vector<Renaming>& renamings() const { return renamings_; }
  const std::deque<std::unique_ptr<Entity>>& entities() const {
    return entities_;
  }  // in the order in which they were reached
  const Spec& spec() const { return spec_; }

  // ---- For the parts of this stage ----------------------------------------------------------------------------------

  /// `span` of `level`'s spec with every reference renamed to this family.
  Fragment render(SourceSpan span, const Level& level, Entity& user, const Substitution& arguments = {},
                  std::vector<Replacement> replacements = {});
  /// The entity that `target` refers to in code of `level`.
  Entity* resolve(const Symbol& target, const Level& level);
  /// The name of `target` in this family, in code of `level`. Adds nothing to the family.
  std::string name_for(const Symbol& target, const Level& level) const;
  /// The qualified name of the class of libtorch or of the contract that `target` refers to in code of `level`; empty
  /// if it refers to one of the family.
  const std::string& library_type(const Symbol& target, const Level& level) const;
  /// The name in this family of the member that `level`'s code calls `name`; `owner` is the class that declares it.
  std::string member_name(const std::string& name, const Symbol& owner, const Level& level, const Entity& user) const;
  /// The text of a message for the user in code of `level`, with this family's names and those of its members.
  std::string message_text(const std::string& text, const Level& level, const Entity& user) const;
  /// The canonical text of `type` in code of `level`, without const and reference, and with this family's names for
  /// classes of specs: types that become equal have equal texts.  (type_text.cc)
  std::string type_text(clang::QualType type, const Level& level, const Entity& user) const;
  /// The same for the types of a function's parameters, with const and reference.  (type_text.cc)
  std::string parameter_types(const clang::FunctionDecl& function, const Level& level, const Entity& user) const;
  /// Those of the first `number` parameters.
  std::string parameter_types(const clang::FunctionDecl& function, const Level& level, const Entity& user,
                              unsigned number) const;
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
  void add_found_by_arguments(Entity& entity);
  void check_replaced(const Symbol& function, const Entity& found, const Level& level, const Entity& entity);
  void check_uses();
  void check_redefinitions();
  void check_unnamed_variables();
  /// The specs of which the family has something, and its own; included ones first.
  std::vector<const Spec*> contributing() const;
  void warn() const;
  /// A part of the file: an entity, or a declaration of one that is defined later.
  struct Piece {
    Entity* entity;
    bool is_declaration;
    size_t method = 0;  // above 0: the body of that one of the entity's methods, outside of its class
  };
  std::vector<Piece> in_order();  // (order.cc)
  void declare(Entity& entity, std::vector<Piece>& pieces, std::set<const Entity*>& known);
  bool befriends(const Entity& entity, const Entity& function) const;
  bool needs_definition(const Entity& entity, const Named& named, Entity& need) const;
  void add_values();
  void add_required(const Entity& entity, std::set<const Entity*>& required) const;
  void move_bodies_outside();
  static Fragment declaration_text(const Entity& entity);
  static Fragment definition_text(const Entity& entity, bool is_declared);
  std::string includes() const;
  bool is_message(SourceSpan where) const;
  struct MemberNames {
    std::set<std::string> members, variables;
  };
  const MemberNames& names_around(const Entity& user);
  bool is_hidden(const Reference& reference, const Reference* before, const std::string& name,
                 const Substitution& arguments, Entity& user);
  void name_macros();
  std::string macro_name(size_t index) const;
  std::string macro_definitions();
  std::string renamed_in(std::string word, const MacroDefinition& macro);
  std::vector<Replacement> directives_and_macros(SourceSpan span);

  struct Use {
    Entity* owner;
    std::string member;
    SourceSpan where;
  };

  const Specs& specs_;
  const Spec& spec_;
  std::deque<std::unique_ptr<Entity>> entities_;  // in the order in which they were reached
  // Keyed by symbol and prefix. Several entities if the code has different meanings on different paths into the family.
  std::map<std::pair<const Symbol*, std::string>, std::vector<Entity*>> by_symbol_;
  std::map<std::pair<const Symbol*, std::vector<Step>>, Entity*>
      by_path_;  // inferred entities; looked up, never iterated
  std::map<std::string, Entity*> by_name_;
  SourceSpan
      cause_;  // the reference being rendered if it is in the family's own spec; otherwise the cause of the entity
  std::vector<Use> uses_;
  std::map<const Entity*, MemberNames>
      member_names_;                           // members of classes and variables of their functions; looked up only
  std::set<size_t> macros_;                    // indices of the macros that rendered text uses
  std::map<size_t, std::string> macro_names_;  // of the specs that the family sees, by index
  bool are_texts_read_ = false;                // by code of a spec that the family sees
  std::vector<Renaming> renamings_;
  mutable std::set<const MemberName*>
      matched_;  // renames of the family's own spec that applied; looked up, never iterated
  std::set<std::pair<uint32_t, uint32_t>> reported_;  // locations that already have an error
};

/// The flattened text of a class.  (class_text.cc)
Fragment class_text(Family& family, Entity& entity);

/// Super calls in a method's body, or in a constructor's initializers and body.  (super_calls.cc)
struct KeptMethod {
  std::string name;
  const clang::CXXMethodDecl* origin;  // the base's method
  Fragment text;
  bool comes_first = false;  // before the member that calls it: it has no written result type
};
struct Supers {
  std::vector<KeptMethod> kept;  // bodies of bases' methods that are kept under new names
  /// If false, the flattened class has the method unchanged.
  std::function<bool(const clang::CXXMethodDecl&)> is_redefined = {};
};
std::vector<Replacement> super_calls(Family& family, Entity& entity, size_t level, const clang::Decl& method,
                                     const Substitution& arguments, Supers& supers);

/// The bodies that a method call in code of `entity` may run: those that any of its levels gives to that name.
MethodsMeant methods_meant(const Entity& entity);

/// Names of the variables, parameters and local types of `function`, including those of its lambdas.
std::set<std::string> names_declared(const clang::FunctionDecl& function);

/// The constructor `constructor` of level `index`, with the constructors of its bases inlined. `field_order` lists the
/// class's fields. `dropped` maps a field to a level: initializations of the field by later levels are left out. With
/// `implied_by`, it is the one that C++ declares implicitly in the class of that level.  (constructor.cc)
struct ConstructorContext {
  Family& family;
  Entity& entity;
  std::vector<std::string> field_order;
  std::map<std::string, size_t> dropped;
  Supers& supers;
  // For each constructor that uses default member initializers, the fields that it assigns instead.
  std::vector<std::set<std::string>>& deferred;
};
Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice, std::optional<size_t> implied_by);

/// The statements of a body with the text around them. The last slice is the text before the closing brace.
std::vector<std::pair<const clang::Stmt*, SourceSpan>> statement_slices(const Family& family, const clang::Stmt& body);

/// The `static constexpr bool` that replaces the inherited field `name` in `entity`, a config; null if it has none.
/// Code that reads the field gets the constant's value, and the flattened config omits it.
const clang::VarDecl* folded_constant(const Entity& entity, const std::string& name);

/// The text for `constant` at `flag`: its value, with a comment that names the parameter it is passed to.
std::string folded_text(const clang::VarDecl& constant, const Reference& flag);

}  // namespace modgen
