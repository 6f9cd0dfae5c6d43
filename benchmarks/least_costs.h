// Lower bounds of the work of an operation of libtorch or of modular, from the sizes of its tensors.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string_view>

namespace modular {

struct Cost {
  double flops = 0.0;  // of matmuls only: other operations are bound by memory
  double bytes = 0.0;  // read and written, each value once
  bool bf16 = false;   // the matmuls' operands are bfloat16
};

using Values = std::span<const c10::IValue>;

/// The last part of a qualified name: "mm" for "aten::mm", "Attention" for "modular::Attention" and for its backward
/// node.
std::string_view short_name(std::string_view name);

/// The cost of an operation that is known by name, including its callees; empty for others. Call it for fused functions
/// in their order of execution, and for their backwards afterwards in reverse order, as the backward runs: backwards
/// see only gradients and take the sizes from their forward.
std::optional<Cost> cost_by_name(std::string_view name, Values inputs);

/// Forgets the forwards that still wait for their backwards.
void forget_forwards();

/// The cost of any other operation without callees: it reads its inputs and writes its outputs, except outputs that are
/// views of the inputs or uninitialized.
Cost cost_by_values(std::string_view name, Values inputs, Values outputs);

}  // namespace modular
