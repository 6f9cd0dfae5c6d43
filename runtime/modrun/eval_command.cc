#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/held_out.h"
#include "runtime/train/preflight.h"
#include "runtime/train/samples.h"
#include "runtime/train/sampling.h"

namespace modular {

namespace {

/// A config whose weights and mesh have been checked.
struct TrainedModel {
  RunConfig config;
  MeshShape mesh;
};

TrainedModel prepare_model(const Arguments& arguments, int64_t world_size) {
  TrainedModel model{read_config_of(arguments), {}};
  choose_weights(model.config, arguments);
  check_reading(model.config);
  model.mesh = model.config.mesh_shape(world_size);
  const auto& network = model.config.network;
  const auto refusal =
      ParallelModel::refusal(*network.entry, *network.config, model.mesh, model.config.parallel_options().pipeline);
  if (!refusal.empty()) throw ConfigError(refusal);
  model.config.train.micro_batches = std::max<int64_t>(model.config.train.micro_batches, 1);
  return model;
}

std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh) {
  ParallelOptions options = config.parallel_options();
  options.initialize = false;
  auto model = std::make_unique<ParallelModel>(*config.network.entry, *config.network.config, mesh, options,
                                               static_cast<uint64_t>(config.train.seed));
  load_parameters(config.model.checkpoint, config.network, boxes_of(*model));
  model->parameters_changed();
  return model;
}

}  // namespace

PreparedCommand prepare_eval(const Arguments& arguments, const Environment& place) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, place.world_size));
  check_targets(trained->config);
  const auto sets = find_data_sets(trained->config);
  for (const DataSet& set : sets) prepare_samples(trained->config, set, Split::held_out, /*seed=*/0);
  if (std::ranges::none_of(sets, &DataSet::holds_out))
    throw ConfigError(
        "no file is held out: set data.held_out_every, data.held_out or data.held_out_part to say what to evaluate "
        "on");
  trained->config.batch_shape(trained->mesh, 0);

  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.note = unknown_keys_note(trained->config.network);
  command.run = [=](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    const auto result = evaluate_sets(*model, config, sets, open_sets(config, sets, Split::held_out, /*seed=*/0),
                                      config.batch_shape(mesh.shape(), data_parallel_rank(mesh)));
    if (mesh.rank() == 0) {
      fmt::print("held-out loss {:.6f} {} over {} {}s, with {}\n", result.loss, loss_unit(config.network),
                 result.targets, target_name(config.network), config.model.checkpoint);
      for (const auto& [name, value] : result.metrics) fmt::print("{} {:.6f}\n", name, value);
    }
    return 0;
  };
  return command;
}

PreparedCommand prepare_sample(const Arguments& arguments, const Environment& place) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, place.world_size));
  auto& config = trained->config;
  if (arguments.prompt) config.sample.prompt = *arguments.prompt;
  if (config.sample.prompt.empty()) throw ConfigError("there is no text to continue: give --prompt TEXT");
  check_sampling(config);
  if (!config.reads("bytes"))
    throw ConfigError(fmt::format("sampling writes bytes, but data.format is \"{}\"", config.data_formats().front()));

  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.note = unknown_keys_note(trained->config.network);
  command.run = [trained](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    const auto show = [&](const std::string& text) {
      if (mesh.rank() != 0) return;
      fmt::print("{}", text);
      std::fflush(stdout);
    };
    show(config.sample.prompt);
    sample(*model, tokens_of(config.sample.prompt), config.sample, config.train.seq_len,
           static_cast<uint64_t>(config.train.seed), [&](int64_t token) { show(text_of({token})); });
    show("\n");
    return 0;
  };
  return command;
}

}  // namespace modular
