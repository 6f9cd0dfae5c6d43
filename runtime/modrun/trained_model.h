// A model for a command that uses what was trained.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/config/config.h"
#include "runtime/modrun/command_line.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// A config whose weights and mesh have been checked.
struct TrainedModel {
  RunConfig config;  // model.checkpoint says where the weights are
  MeshShape mesh;
};

/// What the command line asks for, on so many ranks. Throws ConfigError where there are no weights, or
/// the mesh cannot carry the model.
TrainedModel prepare_model(const Arguments& arguments, int64_t world_size);

/// The model with its weights. Collective.
std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh);

}  // namespace modular
