// What each command of modrun does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/launch/launcher.h"
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

// Each throws ConfigError, DataError or std::runtime_error where the command cannot be carried out on
// the ranks of that world, before anything is run. `place` is this rank's, or that of the first that this launcher
// starts.

PreparedCommand prepare_train(const Arguments& arguments, const Environment& place);
PreparedCommand prepare_eval(const Arguments& arguments, const Environment& place);
PreparedCommand prepare_sample(const Arguments& arguments, const Environment& place);
PreparedCommand prepare_predict(const Arguments& arguments, const Environment& place);
PreparedCommand prepare_forward(const Arguments& arguments, const Environment& place);
PreparedCommand prepare_measure(const Arguments& arguments, const Environment& place);

// Commands of one process.

void show_plan(const Arguments& arguments, int64_t world_size);
void show_advice(const Arguments& arguments);
/// Starts jobs of its own.
void run_bench(const Arguments& arguments);
/// Starts jobs of its own, on this machine with as many ranks as `launch` says. Returns the exit status.
int run_search(const Arguments& arguments, const LaunchOptions& launch);
/// Writes arguments.outputs, the page of arguments.folders.
void write_report(const Arguments& arguments);
void show_entries(const Arguments& arguments);
void show_options(const Arguments& arguments);
void prepare_data(const Arguments& arguments);
void repartition_data(const Arguments& arguments);
void export_checkpoint(const Arguments& arguments);
void import_checkpoint(const Arguments& arguments);

}  // namespace modular
