// What modgen's rules say of the contract's functions, tried out on operands of every type.
#pragma once

#include <string>

#include "tests/contract/declarations.h"

namespace contract {

/// What modgen's rule says of a function with tensors, as a table in Markdown; empty where there is no rule. Throws
/// std::runtime_error where the comment does not give the shape of a tensor.
std::string shard_table(const Declaration& function);

/// The rules of layers in such a table.
std::string layer_table();

/// The names of all rules but those of layers and of `contract`'s functions, by kind, in Markdown.
std::string other_rules(const Contract& contract);

}  // namespace contract
