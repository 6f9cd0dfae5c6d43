// Reads and writes the files of Sentence Transformers in a Hugging Face folder: the list of modules (modules.json),
// their configs (1_Pooling/config.json, …) and the weights of dense layers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/model/embedding_head.h"

namespace modular {

/// Whether the folder has a modules.json with a Pooling. Throws ConfigError if that file cannot be read.
bool has_sentence_modules(const std::filesystem::path& folder);

/// The folder with the Transformer's config, weights and tokenizer: the path of that module where modules.json gives it
/// one, as older releases wrote, and `folder` otherwise. Throws ConfigError if modules.json cannot be read.
std::filesystem::path transformer_folder(const std::filesystem::path& folder);

/// The folder whose modules.json names `folder`, which lies in it, as its Transformer's; empty for none.
std::filesystem::path sentence_folder_around(const std::filesystem::path& folder);

/// The config of the modules after the Transformer, or nothing without a modules.json. Throws ConfigError naming the
/// file if a module or one of its settings is unsupported.
std::optional<EmbeddingHeadConfig> read_embedding_head(const std::filesystem::path& folder);

/// Location of a dense layer's weights.
struct DenseWeights {
  std::string prefix;  // of the parameter names, "embedding_layers.1.", which the file does not have
  std::filesystem::path file;
};

/// Dense layers of a folder, for read_embedding_head().
std::vector<DenseWeights> dense_weights(const std::filesystem::path& folder);

/// Dense layers of a folder that write_sentence_transformers() writes; empty if the model is not a sentence entry.
std::vector<DenseWeights> get_dense_weights(const ModelConfig& model, const std::filesystem::path& folder);

/// Writes modules.json and the module configs into `folder`, and creates the folders of get_dense_weights(). Does
/// nothing if the model is not a sentence entry.
void write_sentence_transformers(const ModelConfig& model, const std::filesystem::path& folder);

/// A config.json without the fields that modules.json and the module configs replace.
std::string without_embedding_head(std::string_view config_json);

}  // namespace modular
