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
#include "runtime/ops/cpu/gemm.h"
#include "runtime/plan/run_plan.h"
#include "runtime/train/deterministic.h"
#include "runtime/train/job_mark.h"
#include "runtime/train/machine_memory.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/text_ids.h"
#include "runtime/train/trainer.h"

namespace modular {

namespace {

/// What is asked for. Where the ranks of a job were started again after a failure, they continue with what they left:
/// the first rank looks whether it was this job that began the run in the folder. The others wait for its choice, as
/// what they find may be an older run's, and what they were told to resume removed since (checkpoint.keep).
RunRequest make_request(const Arguments& arguments, const std::string& folder, const Environment& place) {
  if (place.attempt > 0 && place.rank > 0) return {.follows = true, .rank = place.rank};
  const bool goes_on = place.attempt > 0 && is_marked_by_this_job(folder);
  if (goes_on || arguments.resume == "auto") return {.automatic = true, .rank = place.rank};
  RunRequest request{.resume = !arguments.resume.empty(), .overwrite = arguments.overwrite, .rank = place.rank};
  if (arguments.resume != "yes") request.checkpoint = arguments.resume;
  return request;
}

/// Adds a line to a text, unless it is empty.
void add_line(std::string& text, const std::string& line) {
  if (!line.empty()) text.append(text.empty() ? "" : "\n").append(line);
}

}  // namespace

PreparedCommand prepare_train(const Arguments& arguments, const Environment& place) {
  auto config = read_run_config_for(arguments);
  fit_memory(config, place.world_size);
  const RunRequest request = make_request(arguments, config.train.dir, place);
  auto run = std::make_shared<Run>(prepare_run(std::move(config), request, place.world_size));
  PreparedCommand command;
  command.mesh = run->mesh;
  command.options = run->config.mesh_options();
  command.options.settings =
      resolved_config(place.world_size, run->config, run->sets, run->checkpoint.empty() && place.attempt == 0);
  command.note = unknown_keys_note(run->config.network);
  if (const auto& weights = run->config.model.checkpoint;
      !weights.empty() && run->checkpoint.empty() && reads_weights(run->config) && find_checkpoint(weights).empty()) {
    check_new_head(run->config);
    add_line(command.note, weights_note(weights, run->config.network, Head::may_be_new));
  }
  add_line(command.note, run->note);
  command.before_ranks = [run, ranks = place.local_world_size] {
    check_machine_memory(run->config, run->mesh, ranks, machine_memory());
    check_run_folder(*run);
    check_tokenizer(run->config);  // first: of data with ids of another tokenizer it says why
    check_examples(run->config, run->sets);
    check_wandb(run->config);
    // What writes the sample at the end is not found missing then.
    if (const auto& sample = run->config.sample; !sample.prompt.empty())
      if (const auto tokenizer = tokenizer_of_run(run->config); !tokenizer.empty())
        TextIds(tokenizer, sample.python).prompt(sample.prompt, sample.chat);
    make_run_folder(*run);
    if (run->has_folder())
      for (const std::string& warning : cut_row_groups(run->config, run->sets)) print_to(stdout, "{}\n", warning);
  };
  const auto signals = std::make_shared<std::optional<SaveSignals>>();
  command.run = [run, signals](Mesh& mesh) {
    // Not before all ranks are here: one that is told to end while it waits for others has nothing to save.
    signals->emplace();
    if (run->config.train.deterministic) be_deterministic(mesh.device());
    if (mesh.rank() == 0) print_to(stdout, "{}", format_table(run->config));
    if (mesh.rank() == 0 && mesh.device().is_cpu()) print_to(stdout, "matmuls by {}\n", cpu::gemm_backend());
    const int signal = train(*run, mesh, **signals);
    return signal == 0 ? 0 : 128 + signal;
  };
  return command;
}

}  // namespace modular
