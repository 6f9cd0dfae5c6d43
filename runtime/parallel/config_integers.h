// The integers of a config by name, and the products of them that a plan writes down.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/model/config.h"

namespace modular {

using ConfigIntegers = std::map<std::string, int64_t, std::less<>>;

/// What is not given is left out. Those of a config inside of this one are "text_config.hidden_size".
ConfigIntegers config_integers(const AnyConfig& config);

/// How many experts a token passes through; 0 for a model without.
int64_t experts_per_token(const ConfigIntegers& integers);

/// Gives a field among them another value, unchecked.
void set_config_integer(AnyConfig& config, std::string_view field, int64_t value);

/// The value of "head_dim * num_attention_heads * 2".
int64_t evaluate_monomial(std::string_view product, const ConfigIntegers& integers);

}  // namespace modular
