// How many parameters a model has, over all ranks.
#pragma once

#include <cstdint>

#include "runtime/checkpoint/model_config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Elements of the whole model, and those of them that a token is multiplied by.
struct ParameterCounts {
  int64_t all = 0, multiplied = 0;
};

/// Collective over the model's mesh.
ParameterCounts count_parameters(ParallelModel& model, const ModelConfig& network);

}  // namespace modular
