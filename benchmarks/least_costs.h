// What an operation of libtorch or of ours has to do at least, by the sizes of its tensors.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string_view>

namespace modular {

struct Cost {
  double flops = 0.0;  // of matmuls: what other operations compute takes less than their memory
  double bytes = 0.0;  // read and written, each value once
  bool bf16 = false;   // what the products multiply
};

using Values = std::span<const c10::IValue>;

/// "aten::mm" and "mm", "modular::Attention" and the node of its backward: the part that says what is done.
std::string_view short_name(std::string_view name);

/// The cost of an operation that is known by name, whatever it calls; nothing of others. Calls of our fused functions
/// must be asked for in their order, and their backwards after them in the opposite one, as a backward goes: those see
/// gradients alone, and have the sizes of the forward.
std::optional<Cost> cost_by_name(std::string_view name, Values inputs);

/// Forgets what forwards left for backwards.
void forget_forwards();

/// The cost of any other operation that calls nothing: it reads its inputs and writes its outputs, unless these are
/// views of the inputs or not written.
Cost cost_by_values(std::string_view name, Values inputs, Values outputs);

}  // namespace modular
