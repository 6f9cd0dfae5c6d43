// The files of one checkpoint: writing a rank's, indexing all ranks', and opening them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// checkpoint.json of a checkpoint.
struct CheckpointIndex {
  TrainingState state;
  MeshShape mesh;  // that it was saved on
  StoredTensors tensors;
};

/// "rank-00003.safetensors"
std::string rank_file_name(int64_t rank);

/// The key of each slice in a rank's file: its tensor's name, and from the second slice of one tensor on "name#2".
std::vector<std::string> slice_keys(std::span<const TensorSlice> slices);

/// The metadata of a rank's file: by key, where each of its slices is in which tensor.
std::map<std::string, std::string> slice_metadata(std::span<const TensorSlice> slices);

/// Reads the headers of `ranks` files in `folder` and writes checkpoint.json beside them.
/// Throws std::runtime_error where slices are missing or overlap.
void write_index(const std::filesystem::path& folder, const TrainingState& state, const MeshShape& mesh, int64_t ranks);

/// Reads checkpoint.json and the headers of all files that it names.
/// Throws std::runtime_error where one is damaged.
CheckpointIndex open_checkpoint(const std::filesystem::path& checkpoint);

/// Says why these tensors cannot be the parameters of `model`, or nothing. `where` begins it.
std::string parameter_error(const StoredTensors& tensors, const ModelConfig& model, const std::string& where);

}  // namespace modular
