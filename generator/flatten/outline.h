// Outline of a family: its classes, their bases, and the classes that they name.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"

namespace modgen {

class Family;

struct ClassOutline {
  enum class Kind { module, plain };
  std::string name;  // the holder's name if it has one: "MistralAttention"
  Kind kind = Kind::module;
  bool declared = false;           // in the family's own spec; otherwise inferred
  bool alias = false;              // declared as an alias: nothing differs
  Location where;                  // of the declaration; of the inherited one if it is inferred
  std::vector<std::string> bases;  // nearest first: "llama::LlamaAttention"
  std::vector<std::string> uses;   // classes of the family that it names
};

struct FamilyOutline {
  std::string prefix;                 // "Mistral"
  std::string spec;                   // "modular/mistral.h"
  std::vector<std::string> includes;  // other families' specs, in include order
  std::vector<ClassOutline> classes;  // in the order in which they are reached
};

/// The outline of a flattened family.
FamilyOutline make_outline(const Family& family);

}  // namespace modgen
