// `modrun forward`: one batch through a checkpoint's model on any mesh, and its numbers in a file, for comparison by
// anyone.
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
  std::filesystem::path inputs;      // examples (runtime/checkpoint/examples.h)
  std::filesystem::path outputs;     // safetensors: logits; with labels loss [], the mean over all targets, and with
                                     // gradients what routers' losses add to it
  bool gradients = false;            // also gradients.<parameter's name>, of the loss
  ParallelOptions parallel;
};

/// Says why the command cannot be carried out on a mesh of this shape, or nothing. Needs no process
/// group.
std::string forward_error(const ForwardOptions& options, const MeshShape& shape);

/// Runs the command. Collective; the batch's rows are dealt to the data-parallel ranks. `outputs` appears when it is
/// complete. Throws std::runtime_error where forward_error would have said it or a file cannot be
/// written.
void run_forward(const ForwardOptions& options, Mesh& mesh);

}  // namespace modular
