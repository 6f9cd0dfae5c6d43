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
inline constexpr const char* kPretrainedIndex = "model.safetensors.index.json";  // of several files

/// What a folder may lack of a model.
enum class Head {
  stored,     // nothing
  may_be_new  // where config.json names another class: the parameters outside of the layers and of the embeddings;
              // the rows of a classifier that has another number of labels; and all adapters
};

/// `model` as a checkpoint, a Hugging Face folder or a PEFT folder holds it: without adapters where it may lack them
/// and does, and with the folder's rows where model.added_rows_seed allows others.
ModelConfig as_stored(const ModelConfig& model, const std::filesystem::path& folder, Head head);

/// read_config of `folder`. A Hugging Face folder that holds both of two tied tensors with values that differ is read
/// as not tied, as transformers reads it.
ModelConfig read_pretrained_config(const std::filesystem::path& folder, const Entry* as = nullptr,
                                   const std::filesystem::path& base = {});

/// Says why the folder's tensors are not the model's (missing, unexpected in its layers, embeddings and
/// other modules, or mis-shaped), or nothing. Reads headers only. Adds or strips the base model's prefix; tied tensors
/// may be absent.
std::string pretrained_error(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// The parameters that the folder of another class lacks and the model has, but for adapters.
std::vector<std::string> new_parameters(const std::filesystem::path& folder, const ModelConfig& model);

/// For a program to report once, a line each: the parameters that a Hugging Face folder lacks, which keep their initial
/// values; and the heads and poolers that it has and the model's class does not, which are ignored. Empty where there
/// are neither, and for checkpoints.
std::string weights_note(const std::filesystem::path& folder, const ModelConfig& model, Head head);

/// Whether a folder may lack the parameter whatever class it is of, as no entry of the model's class computes with it.
bool may_be_missing(const ModelConfig& model, std::string_view parameter);

/// The parameters of a checkpoint, of the latest in a folder of them, or of a Hugging Face folder (float32, bfloat16 or
/// float16). Throws std::runtime_error where they are not the model's.
StoredTensors open_parameters(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// load_parameters where the folder may lack some, which keep their values.
void load_parameters(const std::filesystem::path& folder, const ModelConfig& model,
                     std::span<const TensorSlice> parameters, Head head);

/// The same on every rank, of which only the first reads `folder`, as read_by_first does. Collective over the world.
/// Throws on every rank where the tensors are not the model's.
void load_parameters_by_first(const std::filesystem::path& folder, const ModelConfig& model,
                              std::span<const TensorSlice> parameters, Head head, Mesh& mesh);

struct ExportOptions {
  at::ScalarType dtype = at::kFloat;
  int64_t max_shard_bytes = int64_t{5} << 30;  // a larger model is written as several files with an index
};

/// Writes the parameters `stored` (as open_parameters finds them) as model.safetensors, or as several files with an
/// index, into `folder`, one tensor in memory at a time. Tied tensors are left out.
void write_pretrained(const StoredTensors& stored, const ModelConfig& model, const std::filesystem::path& folder,
                      const ExportOptions& options);

/// Writes the parameters of a checkpoint (or of the latest in a folder of them, or of another Hugging Face folder) as a
/// Hugging Face folder: write_pretrained, config.json, and the files of the tokenizer, where the weights have one. The
/// folder appears only when it is complete. Throws std::runtime_error where it is already there, or where the tensors
/// are not those of the config.json beside them.
void export_pretrained(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const ExportOptions& options, const std::filesystem::path& base = {});

/// Writes a Hugging Face folder, or a PEFT folder with the weights of its `base`, as a checkpoint of step 0, without
/// optimizer state, one tensor in memory at a time. Its folder "tokenizer" holds the tokenizer's files, where there are
/// any.
void import_pretrained(const std::filesystem::path& folder, const std::filesystem::path& checkpoint,
                       const std::filesystem::path& base = {});

}  // namespace modular
