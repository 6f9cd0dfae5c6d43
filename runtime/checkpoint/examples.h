// Examples for a model to learn from or to be run on, in a safetensors file: the tensors of a Batch under their names.
#pragma once

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/model/tensors.h"

namespace modular {

/// All examples of `file`, rows first, checked against what the model's task and config ask for: shapes that fit one
/// another, ids below the sizes of their tables. Throws std::runtime_error in one sentence where they do not.
Batch read_examples(const SafetensorsFile& file, const ModelConfig& model);

}  // namespace modular
