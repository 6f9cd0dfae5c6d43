// `modrun train`.
#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/run_tokenizer.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/partitions.h"
#include "runtime/mesh/print.h"
#include "runtime/metrics/wandb.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/ops/cpu/replacements.h"
#include "runtime/plan/run_plan.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/folder_lock.h"
#include "runtime/train/machine_memory.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/text_ids.h"
#include "runtime/train/trainer.h"

namespace modular {

namespace {

/// Resolves --resume after a restart of the job's ranks: they continue with the files that they left. The first rank
/// checks whether this job started the run in the folder. The others wait for its decision, as they may find an older
/// run, and the checkpoint that they were told to resume may have been removed since (checkpoint.keep).
RunRequest make_request(const TrainArguments& arguments, const std::string& folder, const Environment& env) {
  if (env.attempt > 0 && env.rank > 0) return {.follows = true, .rank = env.rank};
  const bool goes_on = env.attempt > 0 && is_marked_by_this_job(folder);
  if (goes_on || arguments.resume == "auto") return {.automatic = true, .rank = env.rank};
  RunRequest request{.resume = !arguments.resume.empty(), .overwrite = arguments.overwrite, .rank = env.rank};
  if (arguments.resume != "yes") request.checkpoint = arguments.resume;
  return request;
}

/// Appends a line to a text, unless the line is empty.
void add_line(std::string& text, const std::string& line) {
  if (!line.empty()) text.append(text.empty() ? "" : "\n").append(line);
}

}  // namespace

PreparedCommand prepare_train(const TrainArguments& arguments, const Environment& env) {
  auto config = read_run_config_for(arguments);
  fit_memory(config, env.world_size);
  const RunRequest request = make_request(arguments, config.train.dir, env);
  auto run = std::make_shared<Run>(prepare_run(std::move(config), request, env.world_size));
  PreparedCommand command;
  command.mesh = run->mesh;
  command.options = run->config.mesh_options();
  command.options.resolved_config =
      resolved_config(env.world_size, run->config, run->sets, run->checkpoint.empty() && env.attempt == 0);
  command.note = unknown_keys_note(run->config.network);
  if (const auto& weights = run->config.model.checkpoint;
      !weights.empty() && run->checkpoint.empty() && reads_weights(run->config) && find_checkpoint(weights).empty()) {
    check_new_head(run->config);
    add_line(command.note, weights_note(weights, run->config.network, Head::may_be_new));
  }
  add_line(command.note, run->note);
  command.before_ranks = [run, ranks = env.local_world_size] {
    check_machine_memory(run->config, run->mesh, ranks, machine_memory());
    check_run_folder(*run);
    check_tokenizer(run->config);  // first, as it explains errors of data with ids of another tokenizer
    validate_datasets(run->config, run->sets);
    check_wandb(run->config.metrics, run->config.train.dir);
    // Detect a missing Python for the final sample now, not at the end.
    if (const auto& sample = run->config.sample; !sample.prompt.empty())
      if (const auto tokenizer = tokenizer_of_run(run->config); !tokenizer.empty())
        TextIds(tokenizer, sample.python).prompt(sample.prompt, sample.chat);
    make_run_folder(*run);
    if (run->has_folder())
      for (const std::string& warning : cut_row_groups(run->config, run->sets)) print_to(stdout, "{}\n", warning);
  };
  const auto signals = std::make_shared<std::optional<SaveSignals>>();
  command.run = [run, signals](Mesh& mesh) {
    // Only after all ranks have started: a rank that is told to end while it waits for others has nothing to save.
    signals->emplace();
    if (run->config.train.deterministic) be_deterministic(mesh.device());
    if (mesh.rank() == 0) print_to(stdout, "{}", format_table(run->config));
    if (mesh.rank() == 0 && mesh.device().is_cpu()) print_to(stdout, "matmul backend: {}\n", cpu::gemm_backend());
    const int signal = train(*run, mesh, **signals);
    return signal == 0 ? 0 : 128 + signal;
  };
  return command;
}

ParsedCommand declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  add_config_options(app, *arguments);
  auto* const resume = app.add_flag("--resume{yes}", arguments->resume,
                                    "continue from the newest checkpoint of train.dir; --resume=auto starts a run if "
                                    "there is none; --resume=step-00000100 continues from that checkpoint");
  app.add_flag("--overwrite", arguments->overwrite, "start over in a folder that holds a run")->excludes(resume);
  return RankCommand([arguments](const Environment& env) { return prepare_train(*arguments, env); });
}

}  // namespace modular
