// Files and folders of a run's checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

// The folder of a run's checkpoints: which are complete, the order in which they were saved, and leftovers of
// interrupted saves.

/// <folder>/step-<step>
std::filesystem::path checkpoint_of_step(const std::filesystem::path& folder, int64_t step);

/// Puts `newest` first in `latest`, before the other complete checkpoints. Removes all of them but the last
/// `keep_last`, `newest` included (0 keeps all), and that of `best_step`, to which the link `best` then points. Removes
/// dangling links.
void list_newest(const std::filesystem::path& folder, const std::filesystem::path& newest, int64_t keep_last,
                 std::optional<int64_t> best_step = {});

/// Cleans up after interrupted saves.
void remove_leftovers(const std::filesystem::path& folder);

// Files of one checkpoint: writing one rank's file, indexing the files of all ranks, and opening them.

/// Contents of a checkpoint's checkpoint.json.
struct CheckpointIndex {
  TrainingState state;
  MeshShape mesh;  // mesh of the run that saved it
  StoredTensors tensors;
};

/// "rank-00003.safetensors"
std::string rank_file_name(int64_t rank);

/// Key of each slice in a rank's file: its tensor's name, or "name#2" and so on from the second slice of a tensor.
std::vector<std::string> slice_keys(std::span<const TensorSlice> slices);

/// Metadata of a rank's file: tensor and offset of each slice, by key.
std::map<std::string, std::string> slice_metadata(std::span<const TensorSlice> slices);

/// Reads the headers of `ranks` files in `folder` and writes checkpoint.json next to them. Throws std::runtime_error if
/// slices are missing or overlap.
void write_index(const std::filesystem::path& folder, const TrainingState& state, const MeshShape& mesh, int64_t ranks);

/// Reads checkpoint.json and the headers of all files that it names. Throws std::runtime_error if one is damaged.
CheckpointIndex open_checkpoint(const std::filesystem::path& checkpoint);

/// Returns why these tensors cannot be the parameters of `model`, or an empty string. The message begins with `where`.
std::string parameter_error(const StoredTensors& tensors, const ModelConfig& model, const std::string& where);

}  // namespace modular
