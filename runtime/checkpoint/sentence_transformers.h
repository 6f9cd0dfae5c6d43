// The files of Sentence Transformers in a Hugging Face folder: which modules make an embedding of hidden states
// (modules.json), how they are set (1_Pooling/config.json, …), and the weights of those that have some.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/model/embedding_head.h"

namespace modular {

/// Whether the folder's modules.json says that it embeds texts. Throws ConfigError where that file is not readable.
bool has_sentence_modules(const std::filesystem::path& folder);

/// What the folder's modules.json and the files that it names say; nothing where there is no modules.json. Throws
/// ConfigError, which names the file, where a module or one of its settings is not supported.
std::optional<EmbeddingHeadConfig> read_embedding_head(const std::filesystem::path& folder);

/// A dense layer's weights.
struct DenseWeights {
  std::string prefix;          // of the parameters' names: "embedding_layers.1."
  std::filesystem::path file;  // in which they have no prefix
};

/// Those that read_embedding_head() found.
std::vector<DenseWeights> dense_weights(const std::filesystem::path& folder);

/// What dense_weights() says of a folder that write_sentence_transformers() writes into; empty where the model embeds
/// no texts.
std::vector<DenseWeights> dense_weights_of(const ModelConfig& model, const std::filesystem::path& folder);

/// Writes modules.json and the modules' settings into `folder` where the model embeds texts; else nothing. The folders
/// of dense_weights_of() are there afterwards.
void write_sentence_transformers(const ModelConfig& model, const std::filesystem::path& folder);

/// The text of a config.json without the fields that modules.json and its files say in its place.
std::string without_embedding_head(std::string_view config_json);

}  // namespace modular
