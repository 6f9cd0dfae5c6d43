// Embedding tables and heads with more rows than the loaded weights: the new rows are sampled as in transformers'
// resize_token_embeddings().
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// The config field with the model's vocabulary size ("vocab_size", "text_config.vocab_size"); empty if the model reads
/// no ids.
std::string vocabulary_field(const ModelConfig& model);

/// Value of that field; 0 if the model reads no ids.
int64_t vocabulary_rows(const ModelConfig& model);

/// Returns the model with `rows` rows in each of its token embeddings and heads.
ModelConfig with_vocabulary_rows(ModelConfig model, int64_t rows);

/// Adds the rows that `model` has in addition to the `stored_rows` of `stored`. They depend on the stored rows, the
/// parameter's name and model.added_rows_seed, and are computed on first access, which reads the stored rows twice, in
/// chunks, and takes 2 · rows · width² operations and 3 · width² float64 numbers. Throws std::runtime_error if the
/// model has fewer rows.
void add_rows(StoredTensors& stored, const ModelConfig& model, int64_t stored_rows);

}  // namespace modular
