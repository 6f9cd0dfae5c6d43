#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/generator_states.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

std::runtime_error does_not_fit(const fs::path& checkpoint, const std::string& why) {
  return std::runtime_error(fmt::format("checkpoint {} does not fit: {}", checkpoint.string(), why));
}

/// Reads the boxes that the checkpoint's tensors hold.
void read_boxes(const fs::path& checkpoint, const StoredTensors& stored, std::span<const TensorBox> boxes) {
  for (const TensorBox& box : boxes) {
    const auto found = stored.find(box.name);
    if (found == stored.end())
      throw does_not_fit(checkpoint,
                         fmt::format("it has no \"{}\"; only the weights of a run with another optimizer or of an "
                                     "imported model can be taken over, into a new run",
                                     box.name));
    if (found->second.shape != box.global_shape)
      throw does_not_fit(checkpoint, fmt::format("\"{}\" is {} in it and {} in the run", box.name,
                                                 shape_text(found->second.shape), shape_text(box.global_shape)));
    read_box(box.name, found->second, box.offset, box.local);
  }
}

}  // namespace

std::vector<TensorBox> boxes_of(std::span<const ShardedParameter> parameters) {
  std::vector<TensorBox> boxes;
  for (const ShardedParameter& parameter : parameters)
    for (const ParameterBox& box : parameter.boxes)
      boxes.push_back({parameter.name, parameter.global_shape, box.offset, box.in_local(parameter.local), box.owner});
  return boxes;
}

std::vector<TensorBox> boxes_of(ParallelModel& model) {
  std::vector<TensorBox> boxes = boxes_of(model.parameters());
  std::ranges::move(boxes_of(model.buffers()), std::back_inserter(boxes));
  return boxes;
}

std::string checkpoint_refusal(const fs::path& checkpoint, const ModelConfig& model) {
  try {
    const std::string difference = config_difference(read_config(checkpoint), model);
    if (!difference.empty()) return does_not_fit(checkpoint, difference).what();
    return parameter_refusal(open_checkpoint(checkpoint).tensors, model, checkpoint.string());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TrainingState load_checkpoint(const fs::path& checkpoint, const ModelConfig& model, std::span<const TensorBox> tensors,
                              const Mesh& mesh) {
  const std::string difference = config_difference(read_config(checkpoint), model);
  if (!difference.empty()) throw does_not_fit(checkpoint, difference);
  CheckpointIndex index = open_checkpoint(checkpoint);
  read_boxes(checkpoint, index.tensors, tensors);
  if (index.mesh.size == mesh.shape().size) restore_generators(checkpoint / rank_file_name(mesh.rank()), mesh.device());
  return std::move(index.state);
}

}  // namespace modular
