// The call of a base's constructor in a derived one's initializers.
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
  size_t level = 0;                                        // of the class whose constructor runs
  const clang::CXXConstructorDecl* constructor = nullptr;  // with its body; null where none runs that was written
  std::vector<const clang::Expr*> arguments;
  std::vector<size_t> skipped;  // levels whose constructors skip_to passes over
};

/// What `init`, of a constructor of `entity`'s level `level`, calls; nullopt where the base is none of its levels but a
/// library's. A form that cannot be followed is rejected.
std::optional<BaseCall> base_call(const Family& family, const Entity& entity, size_t level,
                                  const clang::CXXCtorInitializer& init);

/// What `constructor`, a default constructor of that level which says `= default`, calls of its bases.
BaseCall default_base_call(const Family& family, const Entity& entity, size_t level,
                           const clang::CXXConstructorDecl& constructor);

/// What stands for the constructor's parameters where it is written out.
struct BoundArguments {
  Substitution substitution;
  struct Variable {
    const clang::ParmVarDecl* parameter;
    Fragment argument;
    std::string name = {};  // where it cannot keep its own
  };
  std::vector<Variable> variables;  // parameters that become variables of the body, with their first values
};

/// The arguments of `call` in the places of the parameters, for level `level`, of whose own parameters `outer` knows
/// what stands for them. Arguments that would be evaluated more than once or at another time are rejected.
BoundArguments base_arguments(Family& family, Entity& entity, const BaseCall& call, size_t level,
                              const Substitution& outer);

}  // namespace modgen
