// `modrun forward`: runs one batch through a checkpoint's model on any mesh and writes the results to a file, for
// comparison with other programs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

struct ForwardOptions {
  std::filesystem::path checkpoint;  // of a run, or a Hugging Face folder
  std::optional<ModelConfig> model;  // instead of the checkpoint's own, with the same parameters
  std::filesystem::path inputs;      // examples (runtime/data/examples.h)
  std::filesystem::path outputs;     // safetensors: logits; with labels, loss [], the mean over all targets, and with
                                     // gradients, the routers' additional losses
  bool gradients = false;            // also write gradients.<parameter>, of the loss
  ParallelOptions parallel;
};

/// Error message if the command cannot run on a mesh of this shape; empty otherwise. Needs no process group.
std::string forward_error(const ForwardOptions& options, const MeshShape& shape);

/// Runs the command. Collective; splits the batch's rows over the data-parallel ranks. `outputs` appears when it is
/// complete. Throws std::runtime_error if forward_error reports an error, or if a file cannot be written.
void run_forward(const ForwardOptions& options, Mesh& mesh);

}  // namespace modular
