#include "runtime/modrun/trained_model.h"

#include <algorithm>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/modrun/run_config.h"

namespace modular {

TrainedModel prepare_model(const Arguments& arguments, int64_t world_size) {
  TrainedModel model{read_run_config_for(arguments), {}};
  choose_weights(model.config, arguments);
  take_label_names(model.config);
  model.mesh = model.config.mesh_shape(world_size);
  const auto& network = model.config.network;
  const auto error =
      ParallelModel::error(*network.entry, *network.config, model.mesh, model.config.parallel_options().pipeline);
  if (!error.empty()) throw ConfigError(error);
  model.config.train.micro_batches = std::max<int64_t>(model.config.train.micro_batches, 1);
  return model;
}

std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh) {
  ParallelOptions options = config.parallel_options();
  options.initialize = false;
  auto model = std::make_unique<ParallelModel>(*config.network.entry, *config.network.config, mesh, options,
                                               static_cast<uint64_t>(config.train.seed));
  load_parameters(config.model.checkpoint, config.network, get_slices(*model));
  model->parameters_changed();
  return model;
}

}  // namespace modular
