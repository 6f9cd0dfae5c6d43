#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/first_reader.h"
#include "runtime/checkpoint/generator_states.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

std::runtime_error does_not_fit(const fs::path& checkpoint, const std::string& why) {
  return std::runtime_error(fmt::format("checkpoint {} does not fit: {}", checkpoint.string(), why));
}

/// A checkpoint of this model.
CheckpointIndex open_checkpoint_of(const ModelConfig& model, const fs::path& checkpoint) {
  const std::string difference = config_difference(read_config(checkpoint), model);
  if (!difference.empty()) throw does_not_fit(checkpoint, difference);
  return open_checkpoint(checkpoint);
}

/// Reads a box of what the checkpoint holds.
void read_from(const fs::path& checkpoint, const StoredTensors& stored, const TensorBox& box) {
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
  CheckpointIndex index = open_checkpoint_of(model, checkpoint);
  for (const TensorBox& box : tensors) read_from(checkpoint, index.tensors, box);
  if (index.mesh.size == mesh.shape().size) {
    const fs::path file = checkpoint / rank_file_name(mesh.rank());
    const auto generators = generator_states(mesh.device());
    for (const auto& [name, state] : generators) read_generator_state(file, name, state);
    set_generator_states(generators, file, mesh.device());
  }
  return std::move(index.state);
}

TrainingState load_checkpoint_by_first(const fs::path& checkpoint, const ModelConfig& model,
                                       std::span<const TensorBox> tensors, Mesh& mesh) {
  const auto generators = generator_states(mesh.device());
  std::vector<TensorBox> boxes(tensors.begin(), tensors.end());
  for (const auto& [name, state] : generators) boxes.push_back({name, state.sizes().vec(), {0}, state});
  std::optional<CheckpointIndex> index;  // opened where a failure is told to all
  const auto read = [&](const TensorBox& box, int64_t rank) {
    if (!index) index = open_checkpoint_of(model, checkpoint);
    if (is_generator_state(box.name))
      return index->mesh.size == mesh.shape().size &&
             read_generator_state(checkpoint / rank_file_name(rank), box.name, box.local);
    read_from(checkpoint, index->tensors, box);
    return true;
  };
  read_by_first(boxes, read, checkpoint.string(), mesh);
  set_generator_states(generators, checkpoint / rank_file_name(mesh.rank()), mesh.device());

  const nlohmann::json said = index ? nlohmann::json{index->state.step, index->state.values} : nlohmann::json();
  const nlohmann::json state =
      nlohmann::json::parse(broadcast_text(mesh.control(), said.dump(), "the state in the checkpoint"));
  return {state.at(0).get<int64_t>(), state.at(1).get<std::map<std::string, std::string>>()};
}

}  // namespace modular
