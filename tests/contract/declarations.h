// What the contract's headers declare, as Clang reads them: the material of docs/reference/contract.md.
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
  std::vector<std::string> names;  // of parameters, or "returns"
  std::vector<std::string> shape;
  bool has_shape = false;
  std::string text;  // after the shape
};

struct Declaration {
  enum class Kind { function, type, variable, macro };
  Kind kind;
  std::string header;     // "runtime/model/functions.h"
  unsigned line;          // there
  std::string name;       // "init::normal_", of a module class that of its holder
  std::string signature;  // C++: a function without its body, a class with its public members
  std::string comment;    // without its operand lines
  std::vector<Operand> operands;
  std::vector<Parameter> parameters;  // of a function
};

struct Contract {
  std::vector<Declaration> declarations;        // a header's in its order
  std::map<std::string, std::string> openings;  // header -> the comment that it opens with
};

/// Reads modular/modular.h and what it includes of runtime/model/ below `root`. Throws std::runtime_error, with the
/// place, for what does not compile and for what it cannot describe.
Contract read_contract(const std::string& root, const std::string& torch, const std::string& clang_resources);

}  // namespace contract
