// Integer fields of a config by name, and the monomials over them that a plan contains.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/model/config.h"

namespace modular {

using ConfigIntegers = std::map<std::string, int64_t, std::less<>>;

/// Returns the integer fields of `config`; unset ones are omitted. Fields of a nested config are named
/// "text_config.hidden_size".
ConfigIntegers config_integers(const AnyConfig& config);

/// Sets an integer field without validation.
void set_config_integer(AnyConfig& config, std::string_view field, int64_t value);

/// Evaluates a monomial such as "head_dim * num_attention_heads * 2".
int64_t evaluate_monomial(std::string_view monomial, const ConfigIntegers& integers);

}  // namespace modular
