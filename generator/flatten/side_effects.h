// State that code reads and modifies, which decides whether two pieces of code may swap.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace clang {
class CXXConstructorDecl;
class CXXMethodDecl;
class CXXRecordDecl;
class Expr;
class FieldDecl;
class FunctionDecl;
class NamedDecl;
class QualType;
class Stmt;
class VarDecl;
}  // namespace clang

namespace modgen {

inline constexpr const char* kRegistry = "<registry>";
inline constexpr const char* kRandom = "<random>";
inline constexpr const char* kShared = "<shared>";
inline constexpr const char* kProcess = "::<process>";
inline constexpr const char* kUnnamed = "<unnamed>";

/// Conservative: code that cannot be followed reads and modifies everything.
struct SideEffects {
  // Fields of the object itself by name. In addition: "<registry>", the order in which register_module and similar
  // functions register; "<random>", the RNG state; "<shared>", objects of libraries that several names may refer to;
  // "::name" for a variable that outlives the call; "::<process>", state that libraries keep for the process;
  // "<unnamed>", unnamed unions and structs, whose members share them.
  std::set<std::string> reads, writes;
  bool reads_everything = false, writes_everything = false;
  bool throws = false;           // it has code that throws
  bool checks = false;           // the same, by a throw expression or a check
  bool may_throw = false;        // it calls functions of libraries that may throw
  bool traps = false;            // it may end the program: it divides integers, or reads what has to be there
  bool acts_at_its_end = false;  // it makes an object whose destructor does more than free its memory
  // It makes as many elements of a container as a number says, which throws for a negative one.
  bool counts_elements = false;
  // Classes of specs whose code the functions of libraries that it calls may run, as containers construct and destroy
  // elements.
  std::set<const clang::CXXRecordDecl*> held;
  std::set<const clang::VarDecl*> read_variables,
      written_variables;           // locals and parameters; only membership is tested
  std::set<std::string> declared;  // names of locals, including parameters of lambdas
  bool returns = false;            // has a return statement outside lambdas
  bool captures = false;           // has a lambda with explicit captures, or one that copies what it names
  void set_everything() { reads_everything = writes_everything = true; }
  bool is_pure() const { return writes.empty() && !writes_everything && written_variables.empty(); }
  /// Whether it runs to its end for arguments for which it is meant, and changes nothing.
  bool is_pure_and_ends() const { return is_pure() && !throws && !checks; }
  bool changes_fields() const { return !writes.empty() || writes_everything; }
  /// Whether it matters when it runs.
  bool depends_on_order() const {
    return !is_pure_and_ends() || !reads.empty() || reads_everything || may_throw || traps || acts_at_its_end ||
           counts_elements || !held.empty();
  }
};

/// The functions whose bodies a call of a method of the object itself may run.
using MethodsMeant = std::function<std::vector<const clang::FunctionDecl*>(const clang::CXXMethodDecl&)>;

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant);

/// Arguments by the parameters that stand for them in inlined code; only looked up.
using Arguments = std::map<const clang::VarDecl*, const clang::Expr*>;

/// The same for inlined code, which in addition reads what the arguments of its parameters read, and modifies those
/// that it is passed by reference.
SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant, const Arguments& arguments);

/// Those of a field's default member initializer, or of its type's default constructor if it has none.
SideEffects find_field_effects(const clang::FieldDecl& field, const MethodsMeant& meant);

/// Those of making an object of that type without a value.
SideEffects find_default_effects(clang::QualType type);

/// Those of the constructors, operators and destructors of these classes of specs outside of their objects.
SideEffects find_held_effects(const std::set<const clang::CXXRecordDecl*>& held);

/// Those of a constructor's initializers.
SideEffects find_initializer_effects(const clang::CXXConstructorDecl& constructor, const MethodsMeant& meant,
                                     const Arguments& arguments = {});

/// Whether the two have the same result in either order, except for the order in which they register.
bool commute(const SideEffects& one, const SideEffects& other);

/// Whether the code modifies state, and only its own variables and the fields that `chosen` accepts, as code that fills
/// a list does.
bool changes_only(const SideEffects& effects, const std::function<bool(const std::string&)>& chosen);

void add(SideEffects& effects, const SideEffects& other);

/// Drops what concerns only a function's own body.
void leave(SideEffects& effects);

}  // namespace modgen
