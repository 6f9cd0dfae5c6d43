#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <ATen/Context.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kGeneratorPrefix = "generator.";

/// The random generators that this rank draws from, by the name of their device.
std::vector<std::pair<std::string, at::Generator>> generators(const at::Device& device) {
  std::vector<std::pair<std::string, at::Generator>> found = {
      {fmt::format("{}cpu", kGeneratorPrefix), at::globalContext().defaultGenerator(at::kCPU)}};
  if (!device.is_cpu())
    found.emplace_back(fmt::format("{}{}", kGeneratorPrefix, c10::DeviceTypeName(device.type(), /*lower_case=*/true)),
                       at::globalContext().defaultGenerator(device));
  return found;
}

void write_rank_file(const fs::path& path, std::span<const TensorBox> tensors, const at::Device& device) {
  std::vector<TensorBox> owned;
  for (const TensorBox& box : tensors)
    if (box.owner && box.local.numel() > 0) owned.push_back(box);
  const std::vector<std::string> keys = box_keys(owned);
  std::vector<SafetensorsWriter::Tensor> headers;
  for (size_t i = 0; i < owned.size(); ++i)
    headers.push_back({keys[i], owned[i].local.scalar_type(), owned[i].local.sizes().vec()});
  std::vector<std::pair<std::string, at::Tensor>> states;
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(name, generator.get_state());
    headers.push_back({name, at::kByte, states.back().second.sizes().vec()});
  }
  auto writer = SafetensorsWriter::create(path, headers, box_metadata(owned), /*with_digests=*/true);
  for (size_t i = 0; i < owned.size(); ++i) writer.write(keys[i], owned[i].local);
  for (const auto& [name, state] : states) writer.write(name, state);
  writer.close();
}

void restore_generators(const fs::path& rank_file, const at::Device& device) {
  const SafetensorsFile file(rank_file);
  for (auto& [name, generator] : generators(device)) {
    if (!file.tensors().contains(name)) continue;  // saved on another kind of device
    const std::lock_guard lock(generator.mutex());
    const at::Tensor state = file.tensor(name);
    file.verify(name, 0, state.nbytes());
    try {
      generator.set_state(state.clone());
    } catch (const c10::Error&) {
      throw std::runtime_error(
          fmt::format("{} is damaged: its \"{}\" is no state of that random generator", rank_file.string(), name));
    }
  }
}

/// Runs `work` here, then agrees over all ranks: where one failed, it throws its own error and the others say that one
/// failed.
template <class Work>
void together(Mesh& mesh, const std::string& what, const Work& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const bool failed = any_rank(mesh.control(), error != nullptr, what);
  if (error) std::rethrow_exception(error);
  if (failed) throw std::runtime_error(fmt::format("another rank failed in {}", what));
}

/// The step of a checkpoint's folder name; nothing for other names.
std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kStepPrefix)) return {};
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (error != std::errc() || rest != end) return {};
  return step;
}

/// The names that `latest` lists, in the order in which they were saved, the newest first. Times of files are no order:
/// copies have others.
std::vector<std::string> saved_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::istringstream lines(fs::is_regular_file(folder / "latest") ? read_file(folder / "latest") : "");
  for (std::string name; std::getline(lines, name);) {
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

/// Complete checkpoints, the newest first. One that is not listed was saved last: the save ended before it was.
std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  const std::vector<std::string> saved = saved_names(folder);
  std::vector<std::tuple<std::ptrdiff_t, int64_t, fs::path>> found;  // by number in `latest`, then the highest step
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_replaced = entry.path().extension() == ".replaced" && !fs::exists(folder / entry.path().stem());
    const fs::path name = is_replaced ? entry.path().stem() : entry.path().filename();
    const auto step = step_of(name);
    if (!step || !fs::exists(entry.path() / "checkpoint.json")) continue;
    const auto listed = std::ranges::find(saved, name.string());
    found.emplace_back(listed == saved.end() ? -1 : listed - saved.begin(), -*step, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [number, step, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// Puts `newest` first in `latest`, before the other complete checkpoints, and removes all of those but the last
/// `keep_last` with it (0 keeps all).
void list_newest(const fs::path& folder, const fs::path& newest, int64_t keep_last) {
  std::vector<fs::path> others = complete_checkpoints(folder);
  std::erase_if(others, [&](const fs::path& one) { return one.filename() == newest.filename(); });
  const size_t kept = keep_last > 0 ? std::min(static_cast<size_t>(keep_last) - 1, others.size()) : others.size();
  std::string names = newest.filename().string() + "\n";
  for (size_t i = 0; i < kept; ++i) names += others[i].filename().string() + "\n";
  write_file(folder / "latest", names);
  for (size_t i = kept; i < others.size(); ++i) remove_folder(others[i]);
}

/// Mends what saves that were interrupted left.
void remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (step_of(entry.path().stem())) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    if (entry.extension() == ".partial") fs::remove_all(entry);
    if (entry.extension() == ".replaced") restore_folder(folder / entry.stem());
  }
}

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
      boxes.push_back(
          {parameter.name, parameter.global_shape, box.offset, box.in_local(parameter.local), parameter.owner});
  return boxes;
}

std::vector<TensorBox> boxes_of(ParallelModel& model) {
  std::vector<TensorBox> boxes = boxes_of(model.parameters());
  std::ranges::move(boxes_of(model.buffers()), std::back_inserter(boxes));
  return boxes;
}

fs::path save_checkpoint(const fs::path& folder, const ModelConfig& model, const TrainingState& state,
                         std::span<const TensorBox> tensors, Mesh& mesh, int64_t keep_last) {
  const fs::path checkpoint = folder / fmt::format("{}{:08}", kStepPrefix, state.step);
  const fs::path partial = partial_folder(checkpoint);
  const bool first = mesh.rank() == 0;
  together(mesh, "preparing a checkpoint", [&] {
    if (!first) return;
    fs::create_directories(folder);
    remove_leftovers(folder);
    begin_folder(checkpoint);
  });
  together(mesh, "writing a checkpoint",
           [&] { write_rank_file(partial / rank_file_name(mesh.rank()), tensors, mesh.device()); });
  together(mesh, "completing a checkpoint", [&] {
    if (!first) return;
    write_file(partial / "config.json", format_config(model, "float32"));
    write_index(partial, state, mesh.shape(), mesh.world_size());
    publish_folder(checkpoint);
    list_newest(folder, checkpoint, keep_last);
  });
  return checkpoint;
}

fs::path find_checkpoint(const fs::path& path) {
  if (fs::exists(path / "checkpoint.json")) return path;
  if (const std::vector<std::string> names = saved_names(path); !names.empty()) {
    const std::string& name = names.front();
    const bool is_step = step_of(name).has_value();  // other names may be no names of files
    const fs::path newest = is_step ? published_folder(path / name) : path;
    if (!is_step || !fs::exists(newest / "checkpoint.json"))
      throw std::runtime_error(fmt::format(
          "{} names the checkpoint \"{}\", which is not there: --resume=step-… or --checkpoint names another one",
          (path / "latest").string(), name));
    return newest;
  }
  if (!fs::is_directory(path)) return {};
  const auto complete = complete_checkpoints(path);  // a save that was interrupted before it wrote `latest`
  return complete.empty() ? fs::path() : complete.front();
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

void load_parameters(const fs::path& folder, const ModelConfig& model, std::span<const TensorBox> parameters) {
  const fs::path checkpoint = find_checkpoint(folder);
  if (checkpoint.empty()) return load_pretrained(folder, model, parameters);
  const StoredTensors stored = open_checkpoint(checkpoint).tensors;
  if (const auto refusal = parameter_refusal(stored, model, checkpoint.string()); !refusal.empty())
    throw std::runtime_error(refusal);
  read_boxes(checkpoint, stored, parameters);
}

}  // namespace modular
