// Checkpoints of a training run: each rank writes the slices it owns, and any number of ranks reads them back.
//
//   <folder>/latest                   the names of the complete checkpoints, the newest first
//   <folder>/best                     a link to the best of them, where one is kept as that
//   <folder>/step-00000100/
//     config.json                     the model, as in a Hugging Face folder
//     checkpoint.json                 step, state, and of each tensor its shape and where its slices lie
//     rank-00000.safetensors …        the slices that a rank owns, and its random generators
//
// Either all ranks see one file system, or rank 0 alone has the folder, and writes and reads for all. A checkpoint
// appears under its name only when it is complete.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// The part of a tensor that this rank keeps: global[offset, offset + local.sizes()). Parameters, and whatever the
/// optimizer keeps beside them in any layout of its own.
struct TensorSlice {
  std::string name;  // "model.norm.weight"; of an optimizer "optimizer.exp_avg.model.norm.weight"
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
  at::Tensor local;   // any dtype; loading writes into it
  bool owner = true;  // true on exactly one of the ranks that hold this slice. A rank may hold several of one tensor
};

/// The slices of parameters, which share their storage.
std::vector<TensorSlice> get_slices(std::span<const ShardedParameter> parameters);

/// The slices of a model's parameters and buffers: all that its files hold.
std::vector<TensorSlice> get_slices(ParallelModel& model);

/// What a run needs in addition to tensors to continue, the same on every rank.
struct TrainingState {
  int64_t step = 0;
  std::map<std::string, std::string>
      values;                             // small texts: the position in the data, counters, the resolved run config
  std::optional<int64_t> best_step = {};  // whose checkpoint is kept beside the newest; saving alone reads it
};

/// Writes <folder>/step-<step> with the tensors, the state, and this rank's random generators (the CPU's and the
/// device's), then points `latest` to it and removes all but the newest `keep_last` (0 keeps all). Collective. An
/// interrupted save leaves the older checkpoints and `latest` as they were. Returns the new checkpoint's folder. Throws
/// std::runtime_error where a file cannot be written.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder, const ModelConfig& model,
                                      const TrainingState& state, std::span<const TensorSlice> tensors, Mesh& mesh,
                                      int64_t keep_last);

/// The checkpoint that a path means: itself, or the latest one of a folder of checkpoints or of a run. Empty where
/// there is none. Throws std::runtime_error where `latest` names a checkpoint that is not there, or a link within the
/// folder of a run leads to it (run_path.h).
std::filesystem::path find_checkpoint(const std::filesystem::path& named);

/// Says why a checkpoint cannot be continued with this model, or nothing. Needs no process group.
std::string checkpoint_error(const std::filesystem::path& checkpoint, const ModelConfig& model);

/// Reads what `save_checkpoint` wrote into the slices' `local`, whatever the slices were when they were saved, and on a
/// mesh of the same shape the random generators too. Each rank reads only what meets its own slices. Call
/// ParallelModel::parameters_changed() afterwards. Throws std::runtime_error where the checkpoint does
/// not fit or a file is damaged.
TrainingState load_checkpoint(const std::filesystem::path& checkpoint, const ModelConfig& model,
                              std::span<const TensorSlice> tensors, const Mesh& mesh);

/// The same, of which only rank 0 reads the checkpoint, as read_by_first does. Collective over the world.
TrainingState load_checkpoint_by_first(const std::filesystem::path& checkpoint, const ModelConfig& model,
                                       std::span<const TensorSlice> tensors, Mesh& mesh);

/// Reads the parameters alone, of a checkpoint or of a Hugging Face folder (pretrained.h), into their slices.
void load_parameters(const std::filesystem::path& folder, const ModelConfig& model,
                     std::span<const TensorSlice> parameters);

}  // namespace modular
