// Validates a run before its ranks start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/config.h"
#include "runtime/datasets/run_datasets.h"

namespace modular {

struct RunRequest {
  bool resume = false;          // continue from the newest checkpoint in train.dir
  bool overwrite = false;       // start over in a folder that holds a run
  bool measured = false;        // a measurement: writes nothing, uses no folder
  bool automatic = false;       // resume if train.dir holds a checkpoint, else start; removes nothing
  bool follows = false;         // skip checks that the first rank performs for all
  std::string checkpoint = {};  // checkpoint to resume instead of the newest
  int64_t rank = 0;             // of this process, or the first rank of this launcher
};

/// Whether the process of a request sees train.dir. If not, it does not check the folder: rank 0 decides whether the
/// run resumes.
inline bool sees_folder(const CheckpointSection& checkpoint, const RunRequest& request) {
  return checkpoint.shared || request.rank == 0;
}

/// A run that passed validation.
struct Run {
  RunConfig config;
  RunRequest request;
  MeshShape mesh;
  std::vector<RunDataset> sets;      // opened
  int64_t samples = 0;               // of all sets, to train on
  std::filesystem::path checkpoint;  // to resume from; empty for a new run
  std::string note;                  // lines for the user before the run starts; may be empty

  bool has_folder() const { return sees_folder(config.checkpoint, request); }
};

/// Checks that need no files. Returns the mesh. Throws ConfigError with all problems.
MeshShape check_run_config(const RunConfig& config, int64_t world_size);

/// Prepares a run on `world_size` ranks in this order: checks the config on the mesh, resolves what follows from the
/// data, checks the resolved config, then the checkpoint to resume or the initial weights, then partitions. Throws
/// ConfigError, DataError or std::runtime_error with the fix. Changes nothing and needs no process group.
Run prepare_run(RunConfig config, const RunRequest& request, int64_t world_size);

/// Throws ConfigError if train.dir already holds a run or checkpoints that are neither resumed nor overwritten, or if
/// another program trains there. Called once per job, before rank 0 writes. Does nothing if the run has no folder here.
void check_run_folder(const Run& run);

/// Creates train.dir if this process has it. Throws ConfigError if it cannot be written.
void make_run_folder(const Run& run);

/// Throws ConfigError if `folder` holds neither a checkpoint nor a Hugging Face folder with this model's tensors. A
/// Hugging Face folder of a class with a different head may initialize a model.
void check_weights(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// Whether this process reads the tensors of model.checkpoint before ranks start. If only rank 0 reads them, that is
/// rank 0 and, on its machine, the launcher.
bool reads_weights(const RunConfig& config);

/// `train.steps` or, if `train.epochs` is set, the steps of that many passes over `samples`. Uses `train.batch_size`.
int64_t count_steps(const TrainSection& train, int64_t samples);

}  // namespace modular
