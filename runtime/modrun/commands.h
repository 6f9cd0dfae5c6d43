// The commands of modrun.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/launch/launcher.h"
#include "runtime/mesh/mesh.h"
#include "runtime/modrun/command_line.h"

namespace modular {

/// A command that runs on ranks, validated and ready to start.
struct PreparedCommand {
  MeshShape mesh;
  MeshOptions options;
  std::function<int(Mesh&)> run;       // collective; returns the exit status
  std::function<void()> before_ranks;  // called once per job, before its first rank starts; may be empty
  std::string note;                    // for the user, printed once per job; may be empty
};

// Each throws ConfigError, DataError or std::runtime_error if the command cannot run on the ranks of that world, before
// anything starts. `env` describes this rank, or the first rank that this launcher starts.

PreparedCommand prepare_train(const Arguments& arguments, const Environment& env);
PreparedCommand prepare_eval(const Arguments& arguments, const Environment& env);
PreparedCommand prepare_sample(const Arguments& arguments, const Environment& env);
PreparedCommand prepare_predict(const Arguments& arguments, const Environment& env);
PreparedCommand prepare_forward(const Arguments& arguments, const Environment& env);
PreparedCommand prepare_measure(const Arguments& arguments, const Environment& env);

// Commands that run in one process.

void show_plan(const Arguments& arguments, int64_t world_size);
void show_advice(const Arguments& arguments);
/// Starts jobs of its own.
void run_bench(const Arguments& arguments);
/// Starts jobs of its own, on this machine with the number of ranks in `launch`. Returns the exit status.
int run_search(const Arguments& arguments, const LaunchOptions& launch);
/// Writes arguments.outputs, the HTML page of arguments.folders.
void write_report(const Arguments& arguments);
void show_entries(const Arguments& arguments);
void show_options(const Arguments& arguments);
void prepare_data(const Arguments& arguments);
void repartition_data(const Arguments& arguments);
void export_checkpoint(const Arguments& arguments);
void import_checkpoint(const Arguments& arguments);

}  // namespace modular
