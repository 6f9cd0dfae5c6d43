// All that can be found wrong with a run before a rank is started.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/config.h"
#include "runtime/data/samples.h"
#include "runtime/datasets/data_sets.h"
#include "runtime/datasets/samples.h"

namespace modular {

struct RunRequest {
  bool resume = false;          // continue from the newest checkpoint of train.dir
  bool overwrite = false;       // start again in a folder that holds a run
  bool measured = false;        // nothing is written, and no folder matters
  bool automatic = false;       // continue where train.dir holds a checkpoint, else begin; removes nothing
  bool follows = false;         // looks for nothing: the first rank does so for all
  std::string checkpoint = {};  // to continue from, rather than the newest
  int64_t rank = 0;             // of this process, or the first that this launcher starts
};

/// A run that has been checked.
struct Run {
  RunConfig config;
  RunRequest request;
  MeshShape mesh;
  std::vector<DataSet> sets;
  std::filesystem::path checkpoint;  // that is resumed; empty when the run starts again
  std::string note;                  // lines for a user to know before it starts; may be empty

  /// Whether train.dir is this process's too. Elsewhere nothing is asked of it: rank 0 says whether the run continues.
  bool has_folder() const { return config.checkpoint.shared || request.rank == 0; }
};

/// Checks what needs no file, and returns the mesh. Throws ConfigError that says what to change.
MeshShape check_run_config(const RunConfig& settings, int64_t world_size);

/// Checks mesh, batch, data and checkpoints of a run on `world_size` ranks. Throws ConfigError, DataError or
/// std::runtime_error that says what to change. Changes nothing and needs no process group.
Run prepare_run(RunConfig config, const RunRequest& request, int64_t world_size);

/// Throws ConfigError where train.dir already holds a run, or checkpoints, that are neither resumed nor overwritten, or
/// where another program trains in it. Asked once a job, before its first rank writes. Nothing where the run has no
/// folder here.
void check_run_folder(const Run& run);

/// Makes train.dir, where the run has it here. Throws ConfigError where it cannot be written.
void make_run_folder(const Run& run);

/// Throws ConfigError where `folder` holds neither a checkpoint nor a Hugging Face folder whose tensors are this
/// model's. A Hugging Face folder of a class that has another head may start a model.
void check_weights(const std::filesystem::path& folder, const ModelConfig& model, Head head = Head::stored);

/// Whether this process is to look at the tensors of model.checkpoint before ranks start: where the first rank alone
/// reads them, that one and a launcher, if they are on its machine.
bool reads_weights(const RunConfig& config);

/// Throws DataError or std::runtime_error where an id of an example or of a token file has no place in the model; where
/// nothing `trains`, of those that are held out. Reads all examples, and of token files what check_tokens() does; asked
/// once a job, too.
void check_examples(const RunConfig& config, const std::vector<DataSet>& sets, bool trains = true);

/// Makes train.steps those of train.epochs passes over `samples`, where these are asked for; train.batch_size counts.
void count_steps(RunConfig& config, int64_t samples);

}  // namespace modular
