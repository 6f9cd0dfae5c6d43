// A sampled operation: the facts about its operands that the shard-type rule sees, the operands themselves, and the
// operation as a call of libtorch or of the contract.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "generator/weave/shard_types.h"

namespace modgen::rule_properties {

/// A concrete value on a single process or on one rank. Exactly one member is used.
struct Concrete {
  at::Tensor tensor;  // undefined if omitted
  double number = 0.0;
  std::string text;
  std::vector<Concrete> elements;

  Concrete() = default;
  Concrete(at::Tensor tensor) : tensor(std::move(tensor)) {}  // NOLINT: implicit, for results
  Concrete(double number) : number(number) {}                 // NOLINT
  Concrete(const std::vector<at::Tensor>& tensors);           // NOLINT
  int64_t integer() const { return static_cast<int64_t>(number); }
  bool flag() const { return number != 0.0; }
  std::vector<int64_t> integers() const;
};

using Arguments = std::vector<Concrete>;

/// One operand of the operation.
struct Operand {
  Value value;                    // the facts that the rule sees
  Expr expr;                      // the expression in the source
  Concrete full;                  // the value on a single process
  std::vector<Operand> elements;  // elements of a list, or parameters of a layer
  ShardType type;                 // tensors: shard type, with the dimension counted from the front
};

/// One sampled operation.
struct Application {
  std::vector<Operand> operands;
  /// Runs the operation, or the call that replaces it: `call` is the call that the rule requires.
  std::function<Concrete(const Arguments& arguments, Call call)> run;
  std::string type = "at::Tensor";  // C++ type of the result
  bool random = false;              // the result is random: only shapes are compared
};

}  // namespace modgen::rule_properties
