// Checkpoints of a training run: each rank writes the slices it owns, and any number of ranks can read them back.
//
//   <folder>/latest                   names of the complete checkpoints, the newest first
//   <folder>/best                     link to the best checkpoint, if one is kept as such
//   <folder>/step-00000100/
//     config.json                     the model, as in a Hugging Face folder
//     checkpoint.json                 step, state, and each tensor's shape and the locations of its slices
//     rank-00000.safetensors …        the slices that a rank owns, and the states of its random generators
//
// Either all ranks see one file system, or only rank 0 has the folder and reads and writes for all. A checkpoint
// appears under its name only when it is complete.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// The slice of a tensor that this rank keeps: global[offset, offset + local.sizes()). Parameters, and any optimizer
/// state, in whatever layout the optimizer uses.
struct TensorSlice {
  std::string name;  // "model.norm.weight"; "optimizer.exp_avg.model.norm.weight" for optimizer state
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offset;
  at::Tensor local;  // any dtype; loading writes into it
  bool owner =
      true;  // true on exactly one of the ranks that hold this slice. A rank may hold several slices of one tensor
};

/// Slices of parameters, which share storage with them.
std::vector<TensorSlice> get_slices(std::span<const ShardedParameter> parameters);

/// Slices of a model's parameters and buffers: everything that its files hold.
std::vector<TensorSlice> get_slices(ParallelModel& model);

/// The state that a run needs to resume, apart from tensors; the same on every rank.
struct TrainingState {
  int64_t step = 0;
  std::map<std::string, std::string>
      values;  // small texts: the position in the data, counters, the resolved run config
  std::optional<int64_t> best_step =
      {};  // step of the checkpoint to keep in addition to the newest; read only when saving
};

/// Writes <folder>/step-<step> with the tensors, the state, and this rank's random generators (the CPU's and the
/// device's), then points `latest` to it and removes all but the newest `keep_last` (0 keeps all). Collective. An
/// interrupted save leaves the older checkpoints and `latest` unchanged. Returns the new checkpoint's folder. Throws
/// std::runtime_error if a file cannot be written.
std::filesystem::path save_checkpoint(const std::filesystem::path& folder, const ModelConfig& model,
                                      const TrainingState& state, std::span<const TensorSlice> tensors, Mesh& mesh,
                                      int64_t keep_last);

/// Resolves a path to a checkpoint: the path itself, or the latest checkpoint of a run or of a folder of checkpoints.
/// Empty if there is none. Throws std::runtime_error if `latest` names a checkpoint that does not exist, or if a link
/// within the run's folder leads to it (open_file.h).
std::filesystem::path find_checkpoint(const std::filesystem::path& named);

/// Returns why a checkpoint cannot be resumed with this model, or an empty string. Needs no process group.
std::string checkpoint_error(const std::filesystem::path& checkpoint, const ModelConfig& model);

/// Reads a checkpoint into the slices' `local`, however the tensors were sliced when they were saved, and on a mesh of
/// the same shape the random generators too. Each rank reads only what overlaps its own slices. Call
/// ParallelModel::parameters_changed() afterwards. Throws std::runtime_error if the checkpoint does not match or a file
/// is damaged.
TrainingState load_checkpoint(const std::filesystem::path& checkpoint, const ModelConfig& model,
                              std::span<const TensorSlice> tensors, const Mesh& mesh);

/// The same, but only rank 0 reads the checkpoint (see read_by_first()). Collective over the world.
TrainingState load_checkpoint_by_first(const std::filesystem::path& checkpoint, const ModelConfig& model,
                                       std::span<const TensorSlice> tensors, Mesh& mesh);

/// Reads only the parameters, from a checkpoint or a Hugging Face folder (pretrained.h), into their slices.
void load_parameters(const std::filesystem::path& folder, const ModelConfig& model,
                     std::span<const TensorSlice> parameters);

// Rank 0 reads for all ranks: files that the others need not have.

/// Reads the values of one slice of a rank into its `local`. Returns false if there are none.
using ReadSlice = std::function<bool(const TensorSlice& slice, int64_t rank)>;

/// Makes rank 0 `read` every slice of each rank, one after the other, and copies the values into the ranks' slices; a
/// slice without values stays unchanged. Collective over the world. Exceptions from `read` propagate on rank 0; the
/// other ranks throw a CollectiveError that names `what` was read.
void read_by_first(std::span<const TensorSlice> slices, const ReadSlice& read, const std::string& what, Mesh& mesh);

// A rank's random generators, as tensors in its checkpoint file.

/// States of the CPU's and the device's generators, by tensor name ("generator.cpu").
std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device);

/// Whether `name` is the name of a generator state.
bool is_generator_state(std::string_view name);

/// Reads a generator's state from a rank's file into `state`. Returns false if the file has none, as in a checkpoint
/// from another kind of device. Throws std::runtime_error if it is damaged.
bool read_generator_state(const std::filesystem::path& rank_file, const std::string& name, at::Tensor state);

/// Restores the generators from `states`, which were read from that file. Throws std::runtime_error if one is not a
/// valid state.
void set_generator_states(const std::vector<std::pair<std::string, at::Tensor>>& states,
                          const std::filesystem::path& rank_file, const at::Device& device);

}  // namespace modular
