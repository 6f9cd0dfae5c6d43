// Hugging Face folders: config.json and model.safetensors, single or sharded, read into a model's slices and written
// from a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

inline constexpr const char* kPretrainedFile = "model.safetensors";
inline constexpr const char* kPretrainedIndex = "model.safetensors.index.json";  // index of a sharded model

/// Parameters of a model that a folder may lack.
enum class Head {
  stored,     // none
  may_be_new  // if config.json names another class: parameters outside of the layers and embeddings;
              // the rows of a classifier with another number of labels; and all adapters
};

/// `model` as a checkpoint, Hugging Face folder or PEFT folder stores it: without adapters if it may lack them and
/// does, and with the folder's number of rows if model.added_rows_seed allows it to differ.
ModelConfig as_stored(const ModelConfig& model, const std::filesystem::path& folder, Head head);

/// read_config() of `folder`. If a Hugging Face folder holds both of two tied tensors and their values differ, the
/// config is read as untied, as in transformers.
ModelConfig read_pretrained_config(const std::filesystem::path& folder, const Entry* as = nullptr,
                                   const std::filesystem::path& base = {});

/// Returns why the folder's tensors do not match the model (missing, unexpected in its layers, embeddings or other
/// modules, or of the wrong shape), or an empty string. Reads headers only. Adds or strips the base model's prefix;
/// tied tensors may be absent.
std::string pretrained_error(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// Parameters of the model that a folder of another class lacks, except for adapters.
std::vector<std::string> new_parameters(const std::filesystem::path& folder, const ModelConfig& model);

/// For a program to report once, one per line: parameters that a Hugging Face folder lacks, which keep their initial
/// values, and heads and poolers that it has and the model's class does not, which are ignored. Empty if there are
/// none, and for checkpoints.
std::string weights_note(const std::filesystem::path& folder, const ModelConfig& model, Head head);

/// Whether a folder of any class may lack the parameter, because no entry of the model's class computes with it.
bool may_be_missing(const ModelConfig& model, std::string_view parameter);

/// Parameters of a checkpoint, of the latest one in a folder of checkpoints, or of a Hugging Face folder (float32,
/// bfloat16 or float16). Throws std::runtime_error if they do not match the model.
StoredTensors open_parameters(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// load_parameters() for a folder that may lack some parameters, which keep their values.
void load_parameters(const std::filesystem::path& folder, const ModelConfig& model,
                     std::span<const TensorSlice> parameters, Head head);

/// The same on every rank, but only rank 0 reads `folder` (see read_by_first()). Collective over the world. Throws on
/// every rank if the tensors do not match the model.
void load_parameters_by_first(const std::filesystem::path& folder, const ModelConfig& model,
                              std::span<const TensorSlice> parameters, Head head, Mesh& mesh);

struct ExportOptions {
  at::ScalarType dtype = at::kFloat;
  int64_t max_shard_bytes = int64_t{5} << 30;  // a larger model is written as several files with an index
};

/// Writes the parameters `stored` (from open_parameters()) as model.safetensors, or as several files with an index,
/// into `folder`, with one tensor in memory at a time. Tied tensors are left out.
void write_pretrained(const StoredTensors& stored, const ModelConfig& model, const std::filesystem::path& folder,
                      const ExportOptions& options);

/// Exports the parameters of a checkpoint (or of the latest one in a folder of checkpoints, or of another Hugging Face
/// folder) as a Hugging Face folder: write_pretrained(), config.json, and the tokenizer files if the weights have a
/// tokenizer. The folder appears only when it is complete. Throws std::runtime_error if it exists, or if the tensors do
/// not match the config.json next to them.
void export_pretrained(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const ExportOptions& options, const std::filesystem::path& base = {});

/// Converts a Hugging Face folder, or a PEFT folder with the weights of its `base`, into a checkpoint of step 0 without
/// optimizer state, with one tensor in memory at a time. Its folder "tokenizer" holds the tokenizer files, if there are
/// any.
void import_pretrained(const std::filesystem::path& folder, const std::filesystem::path& checkpoint,
                       const std::filesystem::path& base = {});

}  // namespace modular
