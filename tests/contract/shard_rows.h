// Tables of the shard-type rules of the contract's functions, evaluated on operands of every type.
#pragma once

#include <string>

#include "tests/contract/declarations.h"

namespace contract {

/// A Markdown table of modgen's rule for a function of tensors; empty if there is no rule. Throws std::runtime_error if
/// the comment does not give the shape of a tensor.
std::string shard_table(const Declaration& function);

/// A Markdown table of the rules of layers.
std::string layer_table();

/// A Markdown list, by kind, of all rules except those of layers and of `contract`'s functions.
std::string other_rules(const Contract& contract);

}  // namespace contract
