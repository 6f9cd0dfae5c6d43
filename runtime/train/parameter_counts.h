// How many parameters a model has.
#pragma once

#include <cstdint>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// Elements of the whole model, and those of them that a token is multiplied by.
struct ParameterCounts {
  int64_t all = 0, multiplied = 0;
};

ParameterCounts count_parameters(const ModelConfig& network);

}  // namespace modular
