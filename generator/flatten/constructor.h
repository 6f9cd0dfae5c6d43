// Constructors of a flattened class: their parts in C++'s order of execution, an order in which one constructor can run
// them, and the inlining of the bases' constructors.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/flatten/base_call.h"
#include "generator/flatten/family.h"
#include "generator/flatten/side_effects.h"
#include "generator/source/fragment.h"

namespace clang {
class Expr;
class FieldDecl;
class IfStmt;
}  // namespace clang

namespace modgen {

/// Text is rendered only once it is known to stay, because rendering adds the entities that it names to the family.
using Later = std::function<Fragment()>;

struct Part {
  enum class Kind {
    library_base,  // initializer of a base class from a library
    initializer,   // initializer of a field
    implicit,      // default member initializer, or the default constructor of a field; has no text here
    statement,
  };
  Kind kind = Kind::statement;
  Later text;                        // initializer: `field(value)`; statement: with its semicolon
  Later comment;                     // comment above it
  Later assignment;                  // an initializer as a statement; null if it cannot be one
  std::string obstacle;              // advice if it cannot
  std::set<std::string> words = {};  // of a default member initializer
  std::string field;                 // field that it sets; empty if it sets none or several
  std::string registered;            // name that it registers
  SideEffects effects;               // includes the field that it sets
  bool is_made = false;              // a field without an initializer
  bool is_guard = false;             // it declares a variable whose destructor acts at the end of its class's body
  SourceSpan where;
  size_t level = 0;
};

/// Two parts that would have to swap, but do not commute.
struct Misplaced {
  Part part, other;
};

/// `parts` as initializers, in the order of `rank`, and statements. An initializer that depends on an earlier statement
/// becomes a statement; if it cannot, both are reported in `misplaced`. `deferred` has the fields whose default member
/// initializers became statements.
struct Arranged {
  std::vector<Part> initializers, statements;
  std::set<std::string> deferred;
  std::vector<Misplaced> misplaced;
};
Arranged arranged(std::vector<Part> parts, const std::function<size_t(const Part&)>& rank);

/// Replacements for the base's parameters and variables, and the words that variables must not take.
struct Scope {
  Substitution substitution;
  std::set<std::string> words;  // words of the derived classes' constructors
};

class ConstructorInliner {
 public:
  explicit ConstructorInliner(const ConstructorContext& context)
      : context_(context),
        family_(context.family),
        entity_(context.entity),
        parsed_(family_.parsed()),
        manager_(family_.specs().manager()),
        meant_(methods_meant(entity_)) {}

  /// The text of `declared`, of that level. With `implied_by`, it is the one that C++ declares implicitly in the class
  /// of that level.
  Fragment make(size_t level, const clang::CXXConstructorDecl& declared, SourceSpan slice,
                std::optional<size_t> implied_by);

 private:
  /// The constructor that C++ declares implicitly in the class of `level`, over one with parameters, whose text is that
  /// of level `written`.
  Fragment make_implicit(size_t level, size_t written, SourceSpan slice);

  /// The parts in the order in which a constructor runs them, all conditions checked.
  Arranged arrange_parts();

  /// The initializers and the body.
  Fragment code_text(const Arranged& parts);

  /// Leaves out the specifiers that C++ gives the base's constructor, and not the one that this class has for it.
  std::vector<Replacement> dropped_specifiers(size_t level, const clang::CXXConstructorDecl& declared, SourceSpan slice,
                                              bool is_implied);

  /// Whether the constructor of a base is noexcept, and not what C++ makes of it in this class.
  bool drops_noexcept(size_t level, const clang::CXXConstructorDecl& declared);
  void reject_noexcept(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const;

  /// Comments out parameters that only a dropped initializer read, as in `double /*factor*/`.
  std::vector<Replacement> unused_parameters(const clang::CXXConstructorDecl& constructor,
                                             const std::string& code) const;
  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  Fragment render(SourceSpan where, size_t level, const Substitution& arguments,
                  std::vector<Replacement> replacements = {});
  std::string type_text(clang::QualType type, size_t level) const;
  size_t rank(const Part& part) const;

  /// Whether classes that derive from the class of `level` have fields that C++ initializes with some effect.
  bool initializes_below(size_t level) const;

  /// End of the parameters and of qualifiers behind them, without the semicolon and without `= default`.
  uint32_t parameters_end(const clang::CXXConstructorDecl& constructor) const;

  /// End of the signature: the colon of the initializers, or the body.
  uint32_t head_end(const clang::CXXConstructorDecl& constructor) const;
  bool is_dropped(const std::string& field, size_t level) const;

  /// Appends the parts of `constructor` of `level`, those of its base's constructor first.
  void inline_constructor(size_t level, const clang::CXXConstructorDecl& constructor, Scope scope);
  /// Reports the last initializer, which is written before the base's, if it reads a field that is set later.
  void check_read_before_the_base();
  bool is_own_base(const clang::CXXCtorInitializer& init) const;

  /// The words of a constructor: names that a variable of its base's constructor must not have.
  std::set<std::string> split_words(const clang::CXXConstructorDecl& constructor) const;

  /// Prepares the scope for a base's code, which sees the parameters of the resulting constructor and whose variables
  /// end up next to that constructor's own.
  void enter_scope(size_t level, const clang::CXXConstructorDecl& constructor, Scope& scope);
  void rename(const clang::NamedDecl& variable, const std::string& name, Substitution& substitution) const;

  /// Whether a base's constructor has nothing that exists once in C++; if it has, reports it at `cause`.
  bool check_static_variables(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const;

  /// Whether the text of a base's constructor does the same in the constructor of a derived class; if not, reports it.
  bool can_be_inlined(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const;

  /// Inlines the constructor of a base that is a level of this class; false if the base is a library's class.
  bool run_base(const clang::CXXCtorInitializer& init, size_t level, const Scope& outer, std::set<std::string> words);
  void run_base(const BaseCall& call, size_t level, const Scope& outer, std::set<std::string> words, SourceSpan cause);
  void add_initializer(const clang::CXXCtorInitializer& init, SourceSpan slice, size_t level,
                       const Substitution& arguments);

  /// Drops the base's initialization of a field that is redeclared and initialized here.
  void erase_inherited(const Part& part);

  /// Adds the default member initializers and default constructors of fields of levels in [first, end) that no
  /// user-provided constructor initializes. C++ runs them after the constructor of the class below them, of level
  /// `end`.
  void add_implicit_between(size_t first, size_t end);
  void add_implicit(const clang::FieldDecl& field, size_t level);

  /// Rewrites `gain(offset * 2)` as `gain = offset * 2;`, to run after the base's body, which sets `offset`.
  void make_assignable(const clang::FieldDecl& field, const clang::Expr& initializer, size_t level,
                       const Substitution& arguments, Part& part);
  /// Whether an object of that type can be made without a value, which changes nothing else.
  bool is_made_quietly(clang::QualType type) const;
  void reject_misplaced(const Misplaced& misplaced);

  /// Comments above an initializer and behind it.
  Later comments_at(SourceSpan slice, SourceSpan core, size_t level, const Substitution& arguments);
  Later comment_above(SourceSpan slice, size_t level, const Substitution& arguments);

  /// Records the fields of a level whose constructor is skipped: this class has to set them.
  void check_skipped(size_t level, const clang::CXXCtorInitializer& init);

  /// Whether `if (parameter) statement` has `true` as its argument. With `false` the statement stays, because it may
  /// hold the only registration of a module.
  static bool always_holds(const clang::IfStmt& condition, const Substitution& arguments);
  void check_skipped_fields();

  /// A return in a base's body would end the whole constructor.
  void check_returns(const std::vector<Part>& statements);
  /// A guard that a base's body declares would also cover the statements after that body.
  void check_guards(const std::vector<Part>& statements);

  /// Adds a variable for a parameter of the base's constructor that the body modifies, or that would be evaluated more
  /// than once.
  void add_variable(const clang::ParmVarDecl& parameter, const Fragment& argument, size_t level,
                    const Substitution& arguments);

  /// Appends a statement, or replaces the inherited part that has the same target. `comment` goes above it.
  void add_statement(const clang::Stmt& stmt, SourceSpan slice, size_t level, const Substitution& arguments,
                     SourceSpan comment = {});

  struct Assignment {
    std::string field;  // empty if the statement is not an assignment
    const clang::FieldDecl* decl = nullptr;
    const clang::Expr* value = nullptr;
  };
  static Assignment assignment_in(const clang::Stmt& statement);

  /// Replaces the inherited part that sets or registers the same member with `part`; false if `part` has to run after
  /// all parts so far. The position matters only for a member that is registered again: it determines the order of the
  /// state dict.
  bool replace_inherited_part(const Part& part, const Assignment& assignment, SourceSpan comment, size_t level,
                              const Substitution& arguments);

  /// Whether everything that `value` names is visible throughout the resulting constructor: no variables of a body.
  static bool names_no_variable(const SideEffects& value);

  /// Whether dropping the value of `inherited` loses no side effects, and the assignment yields the same value as the
  /// initialization would.
  bool replaces_value(const Part& inherited, const Part& part, const Assignment& assignment, size_t level) const;

  /// Whether all fields that `value` reads are initialized before the field of rank `field_rank`.
  bool is_readable_at(const SideEffects& value, size_t field_rank) const;

  /// Names of the variables in that level's constructor.
  std::set<std::string> declared_by(size_t level) const;

  /// Handles `remove(member);`, which drops the parts that create the member. The constructor creates it again later.
  bool is_remove(const clang::Stmt& stmt);

  /// The intended value is ambiguous: the redeclaration's, or the one that the body assigns after it.
  void reject_overwritten(const Part& part);
  /// Rejects a part that is dropped with its field, if it changes anything else.
  void reject_lost(const Part& part);
  void reject_order(const Part& part);

  struct Skipped {
    std::string name;
    const clang::FieldDecl* field;
    SourceSpan where;
  };

  const ConstructorContext& context_;
  std::vector<Part> parts_;                           // in C++'s order of execution
  Fragment tail_;                                     // comments before the closing brace
  size_t first_ = 0;                                  // level whose constructor is generated
  std::set<std::string> given_;                       // new names of renamed variables
  std::set<std::string> parameters_;                  // parameter names of the constructor that is generated
  std::map<size_t, std::vector<Replacement>> calls_;  // super calls in each level's code
  std::map<size_t, std::vector<Replacement>> moves_;  // likewise, of BoundArguments
  std::map<size_t, std::vector<BoundArguments::Variable>> variables_;
  Arguments arguments_;                // of the bases' constructors
  std::set<std::string> initialized_;  // fields whose inherited initialization a redeclaration replaces
  std::vector<Skipped> skipped_;       // fields whose class's constructor does not run
  Family& family_;
  Entity& entity_;
  const Parsed& parsed_;
  const clang::SourceManager& manager_;
  const MethodsMeant meant_;
};

}  // namespace modgen
