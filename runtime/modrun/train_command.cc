#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/trainer.h"

namespace modular {

PreparedCommand prepare_train(const Arguments& arguments, int64_t world_size) {
  auto run = std::make_shared<Run>(prepare_run(
      read_config_of(arguments), {.resume = arguments.resume, .overwrite = arguments.overwrite}, world_size));
  PreparedCommand command;
  command.mesh = run->mesh;
  command.note = unknown_keys_note(run->config.network);
  if (const auto& weights = run->config.model.checkpoint;
      !weights.empty() && run->checkpoint.empty() && find_checkpoint(weights).empty())
    if (const std::string head = new_head_note(weights, run->config.network); !head.empty())
      command.note.append(command.note.empty() ? "" : "\n").append(head);
  command.before_ranks = [run] {
    check_run_folder(*run);
    check_examples(*run);
  };
  command.run = [run](Mesh& mesh) {
    if (mesh.rank() == 0) fmt::print("{}", format_table(run->config));
    train(*run, mesh);
  };
  return command;
}

}  // namespace modular
