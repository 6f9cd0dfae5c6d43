// How many parameters a model has.
#pragma once

#include <cstdint>

#include "runtime/checkpoint/model_config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Elements of the whole model, those of them that are trained, and those that a token is multiplied by.
struct ParameterCounts {
  int64_t all = 0, trained = 0, multiplied = 0;
};

/// `options` say what is trained.
ParameterCounts count_parameters(const ModelConfig& network, const ParallelOptions& options = {});

}  // namespace modular
