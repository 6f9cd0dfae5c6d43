// What makes a Hugging Face folder of an encoder one that Sentence Transformers loads: that its embedding is the mean
// over tokens.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// Writes modules.json and 1_Pooling/config.json into `folder` where the model embeds sentences; else nothing.
void write_sentence_transformers(const ModelConfig& model, const std::filesystem::path& folder);

}  // namespace modular
