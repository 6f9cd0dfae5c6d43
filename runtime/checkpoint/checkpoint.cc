#include "runtime/checkpoint/checkpoint.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/remote_writer.h"
#include "runtime/checkpoint/safetensors.h"
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

namespace {

using nlohmann::json;

/// Rank 0's answer for a slice, and its final answer after all ranks have their slices.
enum Answer : int64_t { kUnreadable, kNone, kValues };

std::string describe_wanted(std::span<const TensorSlice> slices) {
  json wanted = json::array();
  for (const TensorSlice& slice : slices)
    wanted.push_back({slice.name, slice.global_shape, slice.offset, slice.local.sizes().vec(),
                      static_cast<int>(slice.local.scalar_type())});
  return wanted.dump();
}

/// A slice of another rank, parsed from describe_wanted(), with memory for its values.
TensorSlice wanted_slice(const json& wanted) {
  using Sizes = std::vector<int64_t>;
  const auto type = static_cast<at::ScalarType>(wanted.at(4).get<int>());
  return {wanted.at(0).get<std::string>(), wanted.at(1).get<Sizes>(), wanted.at(2).get<Sizes>(),
          at::empty(wanted.at(3).get<Sizes>(), type)};
}

void read_for_all(std::span<const TensorSlice> slices, const ReadSlice& read, const ProcessGroup& group) {
  std::exception_ptr error;
  const auto answer = [&](const TensorSlice& slice, int64_t rank) {
    try {
      if (!error) return read(slice, rank) ? kValues : kNone;
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    return kUnreadable;
  };
  for (const TensorSlice& slice : slices) answer(slice, 0);
  const int64_t ranks = group ? group->getSize() : 1;
  for (int64_t rank = 1; rank < ranks; ++rank)
    for (const json& wanted : json::parse(receive_text(group, rank))) {
      const TensorSlice slice = wanted_slice(wanted);
      const Answer reply = answer(slice, rank);
      send_number(group, rank, reply);
      if (reply == kUnreadable) break;
      if (reply == kValues) send_values(group, rank, slice.local);
    }
  // No rank continues before all ranks are done: the timeout of the collectives that follow is shorter.
  for (int64_t rank = 1; rank < ranks; ++rank) send_number(group, rank, error ? kUnreadable : kNone);
  if (error) std::rethrow_exception(error);
}

void receive_from_rank0(std::span<const TensorSlice> slices, const std::string& what, const ProcessGroup& group) {
  send_text(group, 0, describe_wanted(slices));
  for (const TensorSlice& slice : slices) {
    const int64_t reply = receive_number(group, 0);
    if (reply == kUnreadable) break;
    if (reply == kNone) continue;
    const bool in_place = slice.local.is_cpu() && slice.local.is_contiguous();
    const at::Tensor values = in_place ? slice.local : at::empty(slice.local.sizes(), slice.local.scalar_type());
    receive_values(group, 0, values);
    if (!in_place) at::Tensor(slice.local).copy_(values);
  }
  if (receive_number(group, 0) == kUnreadable)
    throw CollectiveError(fmt::format("rank 0 failed to read {} for all ranks", what));
}

}  // namespace

void read_by_first(std::span<const TensorSlice> slices, const ReadSlice& read, const std::string& what, Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const ProcessGroup group = message_group(mesh);
  if (mesh.rank() == 0)
    read_for_all(slices, read, group);
  else
    receive_from_rank0(slices, what, group);
}

void load_parameters_by_first(const std::filesystem::path& folder, const ModelConfig& model,
                              std::span<const TensorSlice> parameters, Head head, Mesh& mesh) {
  std::optional<StoredTensors> stored;  // opened inside read_by_first(), which reports a failure to all ranks
  const auto read = [&](const TensorSlice& slice, int64_t) {
    if (!stored) stored = open_parameters(folder, model, head);
    const auto found = stored->find(slice.name);
    if (found == stored->end()) return false;
    read_slice(slice.name, found->second, slice.offset, slice.local);
    return true;
  };
  read_by_first(parameters, read, fmt::format("model.checkpoint {}", folder.string()), mesh);
}

namespace {

std::vector<std::pair<std::string, at::Generator>> generators(const at::Device& device) {
  std::vector<std::pair<std::string, at::Generator>> found = {
      {"generator.cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (!device.is_cpu())
    found.emplace_back(fmt::format("generator.{}", c10::DeviceTypeName(device.type(), /*lower_case=*/true)),
                       at::globalContext().defaultGenerator(device));
  return found;
}

[[noreturn]] void reject_state(const fs::path& rank_file, const std::string& name) {
  throw std::runtime_error(
      fmt::format("{} is damaged: its \"{}\" is not a state of that random generator", rank_file.string(), name));
}

}  // namespace

bool is_generator_state(std::string_view name) { return name.starts_with("generator."); }

std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device) {
  std::vector<std::pair<std::string, at::Tensor>> states;
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(name, generator.get_state());
  }
  return states;
}

bool read_generator_state(const fs::path& rank_file, const std::string& name, at::Tensor state) {
  const SafetensorsFile file(rank_file);
  if (!file.tensors().contains(name)) return false;
  const at::Tensor stored = file.tensor(name);
  file.verify(name, 0, stored.nbytes());
  if (stored.sizes() != state.sizes() || stored.scalar_type() != state.scalar_type()) reject_state(rank_file, name);
  state.copy_(stored);
  return true;
}

void set_generator_states(const std::vector<std::pair<std::string, at::Tensor>>& states, const fs::path& rank_file,
                          const at::Device& device) {
  auto known = generators(device);
  for (size_t i = 0; i < known.size(); ++i) {
    auto& [name, generator] = known[i];
    const std::lock_guard lock(generator.mutex());
    try {
      generator.set_state(states.at(i).second);
    } catch (const c10::Error&) {
      reject_state(rank_file, name);
    }
  }
}

}  // namespace modular
