#include <fmt/format.h>

#include <algorithm>

#include "runtime/datasets/label_names.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/samples.h"
#include "runtime/datasets/sentence_data.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/modrun/trained_model.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/validation.h"

namespace modular {

PreparedCommand prepare_eval(const Arguments& arguments, const Environment& place) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, place.world_size));
  check_reading(trained->config);
  check_targets(trained->config);
  auto sets = find_data_sets(trained->config, /*trains=*/false);
  choose_sentence_loss(trained->config, sets);
  infer_problem(trained->config, sets);
  for (const DataSet& set : sets) prepare_samples(trained->config, set, Split::held_out, /*seed=*/0);
  if (std::ranges::none_of(sets, &DataSet::holds_out))
    throw ConfigError(
        "no file is held out: set data.held_out_every, data.held_out or data.held_out_part to say what to evaluate "
        "on, for all of data.paths data.held_out=[\"*\"]");
  trained->config.batch_shape(trained->mesh, 0);

  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.options.settings = resolved_config(place.world_size, trained->config, sets);
  command.before_ranks = [trained, sets] { check_examples(trained->config, sets, /*trains=*/false); };
  command.note = model_note(trained->config.network, trained->config.model.checkpoint);
  command.run = [=](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    const auto result = evaluate_sets(*model, config, sets, open_sets(config, sets, Split::held_out, /*seed=*/0),
                                      config.batch_shape(mesh.shape(), data_parallel_rank(mesh)));
    if (mesh.rank() == 0 && result.targets == 0) {
      print_result("no held-out loss and no metric: all labels are {}, which is no target\n", kIgnoredTarget);
    } else if (mesh.rank() == 0) {
      print_result("held-out loss {:.6f} {} over {} {}s, with {}\n", result.loss, loss_unit(config.network),
                   result.targets, target_name(config.network), config.model.checkpoint);
      for (const auto& [name, value] : result.metrics) print_result("{} {:.6f}\n", name, value);
    }
    return 0;
  };
  return command;
}

}  // namespace modular
