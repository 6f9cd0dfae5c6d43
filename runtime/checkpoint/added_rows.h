// Token tables and heads with more rows than the weights have that are loaded: the rows are drawn as transformers'
// resize_token_embeddings draws them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// The field of a model's config with the number of ids that it reads ("vocab_size", "text_config.vocab_size"); empty
/// where it reads none.
std::string vocabulary_field(const ModelConfig& model);

/// That number; 0 where the model reads no ids.
int64_t vocabulary_rows(const ModelConfig& model);

/// The model with `rows` in each of its token tables and heads.
ModelConfig with_vocabulary_rows(ModelConfig model, int64_t rows);

/// Adds to `stored`, the parameters of a model with `stored_rows`, the rows that `model` has in addition. They follow
/// from the stored rows, the parameter's name and model.added_rows_seed, and are computed where they are first read:
/// that reads the stored rows twice, a part of them at a time, and takes 2 · rows · width² operations and 3 · width²
/// float64 numbers. Throws std::runtime_error where the model has fewer rows.
void add_rows(StoredTensors& stored, const ModelConfig& model, int64_t stored_rows);

}  // namespace modular
