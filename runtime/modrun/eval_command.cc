// `modrun eval`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/validation.h"

namespace modular {
namespace {

PreparedCommand prepare_eval(const ConfigArguments& arguments, const Environment& env) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, env.world_size));
  check_reading(trained->config);
  check_targets(trained->config);
  auto sets = find_data_sets(trained->config, /*trains=*/false);
  infer_problem(trained->config, sets);
  open_datasets(trained->config, sets, /*trains=*/false);
  choose_sentence_loss(trained->config, sets);
  for (const RunDataset& set : sets) check_sentence_data(trained->config, set);
  if (std::ranges::none_of(sets, &RunDataset::has_validation))
    throw ConfigError(
        "there is no validation data: set data.validation_every, data.validation or data.validation_fraction; "
        "data.validation=[\"*\"] evaluates on all of data.paths");
  trained->config.batch_shape(trained->mesh, 0);

  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.options.resolved_config = resolved_config(env.world_size, trained->config, sets);
  command.before_ranks = [trained, sets] { validate_datasets(trained->config, sets); };
  command.note = model_note(trained->config.network, trained->config.model.checkpoint);
  command.run = [=](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    const auto result =
        evaluate_sets(*model, config, sets, config.batch_shape(mesh.shape(), mesh.coordinate(kRowAxes)));
    if (mesh.rank() == 0 && result.targets == 0) {
      print_result("no validation loss and no metrics: all labels are {}, which is not a target\n", kIgnoredTarget);
    } else if (mesh.rank() == 0) {
      print_result("validation loss {:.6f} {} over {} {}s, with {}\n", result.loss, loss_unit(config.network),
                   result.targets, target_name(config.network), config.model.checkpoint);
      for (const auto& [name, value] : result.metrics) print_result("{} {:.6f}\n", name, value);
    }
    return 0;
  };
  return command;
}

}  // namespace

ParsedCommand declare_eval(CLI::App& app) {
  const auto arguments = std::make_shared<ConfigArguments>();
  add_config_options(app, *arguments);
  add_checkpoint_option(app, *arguments);
  return RankCommand([arguments](const Environment& env) { return prepare_eval(*arguments, env); });
}

}  // namespace modular
