// What a family is made of: its classes, those that they come from, and those that they name.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

class Family;

struct ClassOutline {
  enum class Kind { module, plain };
  std::string name;  // of the holder where there is one: "MistralAttention"
  Kind kind = Kind::module;
  bool declared = false;           // in the family's own spec; else inferred
  bool alias = false;              // declared as an alias: nothing differs
  Location where;                  // of the declaration, or of the inherited one where it is inferred
  std::vector<std::string> bases;  // nearest first: "llama::LlamaAttention"
  std::vector<std::string> uses;   // the family's classes that it names
};

struct FamilyOutline {
  std::string prefix;                 // "Mistral"
  std::string spec;                   // "modular/mistral.h"
  std::vector<std::string> includes;  // other families' specs, as it includes them
  std::vector<ClassOutline> classes;  // in the order in which they are reached
};

/// The outline of a flattened family.
FamilyOutline make_outline(const Family& family);

}  // namespace modgen
