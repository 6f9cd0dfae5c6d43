// An operation as it is drawn: what a rule of shard types is told of its operands, the operands themselves, and the
// operation as a call of libtorch or of the contract.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "generator/weave/shard_types.h"

namespace modgen::rule_properties {

/// A value as one process or one rank has it: one of these.
struct Concrete {
  at::Tensor tensor;  // undefined where none is given
  double number = 0.0;
  std::string text;
  std::vector<Concrete> elements;

  Concrete() = default;
  Concrete(at::Tensor tensor) : tensor(std::move(tensor)) {}  // NOLINT: a result is given as it is
  Concrete(double number) : number(number) {}                 // NOLINT
  Concrete(const std::vector<at::Tensor>& tensors);           // NOLINT
  int64_t integer() const { return static_cast<int64_t>(number); }
  bool flag() const { return number != 0.0; }
  std::vector<int64_t> integers() const;
};

using Arguments = std::vector<Concrete>;

/// What stands at one place of the operation.
struct Operand {
  Value value;                    // what the rule is told of it
  Expr expr;                      // as it is written
  Concrete whole;                 // as one process has it
  std::vector<Operand> elements;  // of a list; the parameters of a layer
  ShardType type;                 // of a tensor, its dimension counted from the front
};

/// One drawn operation.
struct Application {
  std::vector<Operand> operands;
  /// The operation itself, or what is woven in its place: `call` is what the rule asks for.
  std::function<Concrete(const Arguments& arguments, Call call)> run;
  std::string type = "at::Tensor";  // of the result
  bool random = false;              // values of the result mean nothing: only shapes are compared
};

}  // namespace modgen::rule_properties
