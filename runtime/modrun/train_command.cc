#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/trainer.h"

namespace modular {

PreparedCommand prepare_train(const Arguments& arguments, int64_t world_size) {
  RunRequest request{.resume = arguments.resume == "yes", .overwrite = arguments.overwrite};
  if (arguments.resume == "auto" || arguments.restarted) request = {.automatic = true};
  auto run = std::make_shared<Run>(prepare_run(read_config_of(arguments), request, world_size));
  PreparedCommand command;
  command.mesh = run->mesh;
  command.options = run->config.mesh_options();
  command.note = unknown_keys_note(run->config.network);
  if (const auto& weights = run->config.model.checkpoint;
      !weights.empty() && run->checkpoint.empty() && find_checkpoint(weights).empty())
    if (const std::string head = new_head_note(weights, run->config.network); !head.empty())
      command.note.append(command.note.empty() ? "" : "\n").append(head);
  if (!run->note.empty()) command.note.append(command.note.empty() ? "" : "\n").append(run->note);
  command.before_ranks = [run] {
    check_run_folder(*run);
    check_examples(*run);
    remove_overwritten(*run);
  };
  command.run = [run](Mesh& mesh) {
    if (mesh.rank() == 0) fmt::print("{}", format_table(run->config));
    const int signal = train(*run, mesh);
    return signal == 0 ? 0 : 128 + signal;
  };
  return command;
}

}  // namespace modular
