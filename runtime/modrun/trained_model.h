// Models for commands that use trained weights.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/config/config.h"
#include "runtime/modrun/command_line.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// A config whose weights and mesh have been validated.
struct TrainedModel {
  RunConfig config;  // model.checkpoint is the location of the weights
  MeshShape mesh;
};

/// Resolves the command line for a number of ranks. Throws ConfigError if there are no weights, or if the mesh does not
/// suit the model.
TrainedModel prepare_model(const Arguments& arguments, int64_t world_size);

/// Constructs the model and loads its weights. Collective.
std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh);

}  // namespace modular
