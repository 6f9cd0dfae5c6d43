// What each command of modrun does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/mesh/mesh.h"
#include "runtime/modrun/command_line.h"

namespace modular {

/// A command that runs on ranks, checked and ready.
struct PreparedCommand {
  MeshShape mesh;
  MeshOptions options;
  std::function<int(Mesh&)> run;       // collective; returns the exit status
  std::function<void()> before_ranks;  // asked once a job, before its first rank runs; may be empty
  std::string note;                    // worth knowing, printed once a job; may be empty
};

// Each throws ConfigError, DataError or std::runtime_error in one sentence where the command cannot be carried out on
// `world_size` ranks, before anything is run.

PreparedCommand prepare_train(const Arguments& arguments, int64_t world_size);
PreparedCommand prepare_eval(const Arguments& arguments, int64_t world_size);
PreparedCommand prepare_sample(const Arguments& arguments, int64_t world_size);
PreparedCommand prepare_forward(const Arguments& arguments, int64_t world_size);
PreparedCommand prepare_measure(const Arguments& arguments, int64_t world_size);

// Commands of one process.

void show_plan(const Arguments& arguments, int64_t world_size);
/// Starts jobs of its own.
void run_bench(const Arguments& arguments);
void show_entries(const Arguments& arguments);
void show_settings(const Arguments& arguments);
void export_checkpoint(const Arguments& arguments);
void import_checkpoint(const Arguments& arguments);

}  // namespace modular
