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

/// Opens a checkpoint and checks that it is one of this model.
CheckpointIndex open_checkpoint_for(const ModelConfig& model, const fs::path& checkpoint) {
  const std::string difference = config_difference(read_config(checkpoint), model);
  if (!difference.empty()) throw does_not_fit(checkpoint, difference);
  return open_checkpoint(checkpoint);
}

/// Reads a slice from the checkpoint's tensors.
void read_from(const fs::path& checkpoint, const StoredTensors& stored, const TensorSlice& slice) {
  const auto found = stored.find(slice.name);
  if (found == stored.end())
    throw does_not_fit(checkpoint,
                       fmt::format("it has no \"{}\"; from a run with another optimizer or an imported model, "
                                   "only the weights can be loaded, into a new run",
                                   slice.name));
  if (found->second.shape != slice.global_shape)
    throw does_not_fit(checkpoint, fmt::format("\"{}\" is {} in it and {} in the run", slice.name,
                                               shape_text(found->second.shape), shape_text(slice.global_shape)));
  read_slice(slice.name, found->second, slice.offset, slice.local);
}

}  // namespace

std::vector<TensorSlice> get_slices(std::span<const ShardedParameter> parameters) {
  std::vector<TensorSlice> slices;
  for (const ShardedParameter& parameter : parameters)
    for (const ParameterSlice& slice : parameter.slices)
      slices.push_back(
          {parameter.name, parameter.global_shape, slice.offset, slice.in_local(parameter.local), slice.owner});
  return slices;
}

std::vector<TensorSlice> get_slices(ParallelModel& model) {
  std::vector<TensorSlice> slices = get_slices(model.parameters());
  std::ranges::move(get_slices(model.buffers()), std::back_inserter(slices));
  return slices;
}

std::string checkpoint_error(const fs::path& checkpoint, const ModelConfig& model) {
  try {
    const std::string difference = config_difference(read_config(checkpoint), model);
    if (!difference.empty()) return does_not_fit(checkpoint, difference).what();
    return parameter_error(open_checkpoint(checkpoint).tensors, model, checkpoint.string());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TrainingState load_checkpoint(const fs::path& checkpoint, const ModelConfig& model,
                              std::span<const TensorSlice> tensors, const Mesh& mesh) {
  CheckpointIndex index = open_checkpoint_for(model, checkpoint);
  for (const TensorSlice& slice : tensors) read_from(checkpoint, index.tensors, slice);
  if (index.mesh.size == mesh.shape().size) {
    const fs::path file = checkpoint / rank_file_name(mesh.rank());
    const auto generators = generator_states(mesh.device());
    for (const auto& [name, state] : generators) read_generator_state(file, name, state);
    set_generator_states(generators, file, mesh.device());
  }
  return std::move(index.state);
}

TrainingState load_checkpoint_by_first(const fs::path& checkpoint, const ModelConfig& model,
                                       std::span<const TensorSlice> tensors, Mesh& mesh) {
  const auto generators = generator_states(mesh.device());
  std::vector<TensorSlice> slices(tensors.begin(), tensors.end());
  for (const auto& [name, state] : generators) slices.push_back({name, state.sizes().vec(), {0}, state});
  std::optional<CheckpointIndex> index;  // opened inside read_by_first(), which reports a failure to all ranks
  const auto read = [&](const TensorSlice& slice, int64_t rank) {
    if (!index) index = open_checkpoint_for(model, checkpoint);
    if (is_generator_state(slice.name))
      return index->mesh.size == mesh.shape().size &&
             read_generator_state(checkpoint / rank_file_name(rank), slice.name, slice.local);
    read_from(checkpoint, index->tensors, slice);
    return true;
  };
  read_by_first(slices, read, checkpoint.string(), mesh);
  set_generator_states(generators, checkpoint / rank_file_name(mesh.rank()), mesh.device());

  const nlohmann::json sent = index ? nlohmann::json{index->state.step, index->state.values} : nlohmann::json();
  const nlohmann::json state =
      nlohmann::json::parse(broadcast_text(mesh.control(), sent.dump(), "the state in the checkpoint"));
  return {state.at(0).get<int64_t>(), state.at(1).get<std::map<std::string, std::string>>()};
}

}  // namespace modular
