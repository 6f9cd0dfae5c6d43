// Parameter counts of a model.
#pragma once

#include <cstdint>

#include "runtime/checkpoint/model_config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Number of elements: all, trained, and active per token.
struct ParameterCounts {
  int64_t all = 0, trained = 0, multiplied = 0;
};

/// `options` decide which parameters are trained.
ParameterCounts count_parameters(const ModelConfig& network, const ParallelOptions& options = {});

}  // namespace modular
