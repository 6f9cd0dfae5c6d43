// Reads the declarations of the contract's headers with Clang, for docs/reference/contract.md.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace contract {

struct Parameter {
  std::string name;
  std::string type;  // as Clang spells it: "const Tensor &"
};

/// A line "- query, key [batch, heads, seq, head_dim] bool, or undefined" of a function's comment.
struct Operand {
  std::vector<std::string> names;  // parameter names, or "returns"
  std::vector<std::string> shape;
  bool has_shape = false;
  std::string text;  // text after the shape
};

struct Declaration {
  enum class Kind { function, type, variable, macro };
  Kind kind;
  std::string header;     // "runtime/model/functions.h"
  unsigned line;          // line in the header
  std::string name;       // "init::normal_"; for a module class, the name of its holder
  std::string signature;  // C++: a function without its body, a class with its public members
  std::string comment;    // comment without operand lines
  std::vector<Operand> operands;
  std::vector<Parameter> parameters;  // functions only
};

struct Contract {
  std::vector<Declaration> declarations;        // sorted by header and line
  std::map<std::string, std::string> openings;  // header -> its opening comment
};

/// Reads modular/modular.h and its includes in runtime/model/, below `root`. Throws std::runtime_error, with the
/// location, for code that does not compile and declarations that cannot be described.
Contract read_contract(const std::string& root, const std::string& torch, const std::string& clang_resources);

}  // namespace contract
