// The tensors in the files of a Hugging Face folder.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// The tensors under their current names in transformers, including those of Sentence Transformers' dense layers if the
/// model has an EmbeddingHead; StoredSlice::key is the name in the file. Like transformers, prefers the single file if
/// there is also an index of shards. Throws std::runtime_error if there is neither, and says how to convert other
/// formats; `model` names the class.
StoredTensors open_pretrained_files(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace modular
