// Calls of a base's constructor in a derived class's initializers.
#pragma once

#include <optional>
#include <vector>

#include "generator/flatten/family.h"

namespace clang {
class CXXCtorInitializer;
class Expr;
}  // namespace clang

namespace modgen {

struct BaseCall {
  size_t level = 0;                                        // level of the class whose constructor runs
  const clang::CXXConstructorDecl* constructor = nullptr;  // with its body; null if no user-provided one runs
  std::vector<const clang::Expr*> arguments;
  std::vector<size_t> skipped;  // levels whose constructors skip_to skips
};

/// The constructor call of `init`, an initializer of `entity`'s level `level`; nullopt if the base is not one of its
/// levels but a library's class. Unsupported forms are errors.
std::optional<BaseCall> base_call(const Family& family, const Entity& entity, size_t level,
                                  const clang::CXXCtorInitializer& init);

/// The base constructor that `constructor`, a default constructor of that level declared `= default`, calls.
BaseCall default_base_call(const Family& family, const Entity& entity, size_t level,
                           const clang::CXXConstructorDecl& constructor);

/// Replacements for the constructor's parameters where it is inlined.
struct BoundArguments {
  Substitution substitution;
  struct Variable {
    const clang::ParmVarDecl* parameter;
    Fragment argument;
    std::string name = {};  // new name; empty if it keeps its own
  };
  std::vector<Variable> variables;  // parameters that become local variables of the body, with their initial values
  std::vector<Replacement> moves;   // std::move of a parameter that is its argument here
};

/// The parameter that `value` moves, of a constructor that takes it by value and names it nowhere else; null for other
/// values. What it is moved to is made of the argument.
const clang::ParmVarDecl* sunk_parameter(const clang::Expr& value);

/// Binds the arguments of `call` to the parameters. `call` is made by level `level`, whose own parameters `outer`
/// replaces. Arguments that would be evaluated more than once or at another time are errors.
BoundArguments base_arguments(Family& family, Entity& entity, const BaseCall& call, size_t level,
                              const Substitution& outer);

}  // namespace modgen
