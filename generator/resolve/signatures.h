// The types of parameters, in which each spec has its own names for what the family's classes become.
#pragma once

#include <clang/AST/Type.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>
#include <vector>

#include "generator/resolve/specs.h"

namespace modgen {

/// The text for a class or enum of a spec; `is_record` unless it is a module's holder or an enum.
using NameOfType = llvm::function_ref<std::string(const Symbol& symbol, bool is_record)>;

/// The canonical text of `type`, in which `name` gives the text for each class and enum of a spec.
std::string text_of_type(const Specs& specs, clang::QualType type, NameOfType name);

/// The name of the function's symbol. That of an operator includes the types of its parameters, without namespaces.
std::string name_of_function(const Specs& specs, const clang::FunctionDecl& function);

Signature get_signature(const Specs& specs, const clang::FunctionDecl& function);

/// The classes and enums of specs, configs too, that `type` is, leads to or holds.
std::vector<const Symbol*> symbols_in_type(const Specs& specs, clang::QualType type);

}  // namespace modgen
