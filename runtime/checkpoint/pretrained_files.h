// The tensors in the files of a Hugging Face folder.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// The tensors under the names that transformers gives them now, with those of Sentence Transformers' dense layers
/// where the model has an EmbeddingHead; StoredSlice::key is the name in the file. Like transformers, reads the single
/// file where there is an index of others too. Throws std::runtime_error where there is neither, and says how to
/// convert other formats: `model` names the class.
StoredTensors open_pretrained_files(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace modular
