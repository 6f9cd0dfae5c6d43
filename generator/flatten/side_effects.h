// What running code reads and changes: what decides whether two pieces of code may change places.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace clang {
class CXXMethodDecl;
class FunctionDecl;
class NamedDecl;
class Stmt;
class VarDecl;
}  // namespace clang

namespace modgen {

/// Errs on the side of more: code that cannot be followed reads and changes everything.
struct SideEffects {
  // Fields of the object itself by name. Beside them "<registry>", the order of what register_module and its like
  // register; "<random>", the state of random numbers; and "::name" of a variable that outlives the call.
  std::set<std::string> reads, writes;
  bool reads_everything = false, writes_everything = false;
  std::set<const clang::VarDecl*> read_variables,
      written_variables;           // locals and parameters; only asked for membership
  std::set<std::string> declared;  // names of locals, lambdas' parameters included
  bool returns = false;            // holds a return statement, lambdas' aside
  bool captures = false;           // holds a lambda that names what it captures
  bool is_pure() const { return writes.empty() && !writes_everything && written_variables.empty(); }
  bool changes_fields() const { return !writes.empty() || writes_everything; }
};

/// The functions whose bodies a call of a method of the object itself may run.
using MethodsMeant = std::function<std::vector<const clang::FunctionDecl*>(const clang::CXXMethodDecl&)>;

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant);

/// Whether running the two in either order is the same, but for the order in which they register.
bool commute(const SideEffects& one, const SideEffects& other);

/// Whether the code changes something, and nothing but its own variables and fields that `chosen` takes: it fills
/// lists.
bool changes_only(const SideEffects& effects, const std::function<bool(const std::string&)>& chosen);

void add(SideEffects& effects, const SideEffects& other);

}  // namespace modgen
