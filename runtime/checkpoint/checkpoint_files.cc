#include "runtime/checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kCheckpoints = "checkpoints";

std::string name_of_step(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

/// Parses the step from a checkpoint's folder name; nullopt for other names, including those with extra zeros: a name
/// that may be longer than the file system allows is never a step's.
std::optional<int64_t> parse_step(const fs::path& folder) {
  const std::string name = folder.string();  // a path does not count either: it may lead elsewhere
  if (!name.starts_with(kStepPrefix)) return {};
  int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || name != name_of_step(step)) return {};
  return step;
}

/// The names listed in `latest`, newest first, in the order in which they were saved. File times do not give the order,
/// because copies have others.
std::vector<std::string> saved_names(const fs::path& folder) {
  std::vector<std::string> names;
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  std::istringstream lines(is_there(folder / "latest") ? read_file(folder / "latest", kMostBytes) : "");
  for (std::string name; std::getline(lines, name);) {
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

/// Complete checkpoints, newest first. An unlisted one was saved last: the save was interrupted before it updated
/// `latest`.
std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  const std::vector<std::string> saved = saved_names(folder);
  std::vector<std::tuple<std::ptrdiff_t, int64_t, fs::path>> found;  // by index in `latest`, then the highest step
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_replaced = entry.path().extension() == ".replaced" && !fs::exists(folder / entry.path().stem());
    const fs::path name = is_replaced ? entry.path().stem() : entry.path().filename();
    const auto step = parse_step(name);
    if (!step || entry.is_symlink() || !fs::exists(entry.path() / "checkpoint.json")) continue;
    const auto listed = std::ranges::find(saved, name.string());
    found.emplace_back(listed == saved.end() ? -1 : listed - saved.begin(), -*step, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [number, step, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// <path>/checkpoints if `path` is a run's folder, otherwise `path`. A folder with a model's config is not a run's,
/// even if it contains a folder of that name.
fs::path get_checkpoints(const fs::path& path) {
  const bool is_model = is_there(path / "config.json") || is_there(path / "adapter_config.json");
  const bool is_run = !is_model && path.filename() != kCheckpoints && fs::is_directory(path / kCheckpoints);
  return is_run ? path / kCheckpoints : path;
}

}  // namespace

fs::path checkpoint_of_step(const fs::path& folder, int64_t step) { return folder / name_of_step(step); }

void list_newest(const fs::path& folder, const fs::path& newest, int64_t keep_last, std::optional<int64_t> best_step) {
  const fs::path best = best_step ? checkpoint_of_step(folder, *best_step) : fs::path();
  std::string names = newest.filename().string() + "\n";
  std::vector<fs::path> removed;
  int64_t kept = 1;
  for (const fs::path& other : complete_checkpoints(folder)) {
    if (other.filename() == newest.filename()) continue;
    const bool is_among_last = keep_last == 0 || kept < keep_last;
    kept += is_among_last ? 1 : 0;
    if (is_among_last || other == best)
      names += other.filename().string() + "\n";
    else
      removed.push_back(other);
  }
  write_file(folder / "latest", names);
  if (best_step && fs::exists(best / "checkpoint.json")) link_folder(folder / "best", best.filename());
  for (const fs::path& old : removed) remove_folder(old);
  if (fs::is_symlink(folder / "best") && !fs::exists(folder / "best")) fs::remove(folder / "best");
}

void remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (parse_step(entry.path().stem())) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    if (entry.extension() == ".partial") fs::remove_all(entry);
    if (entry.extension() == ".replaced") restore_folder(folder / entry.stem());
  }
}

fs::path find_checkpoint(const fs::path& named) {
  const auto check = [](const fs::path& checkpoint) { check_no_links(run_path(checkpoint / "checkpoint.json")); };
  check(named);
  if (fs::exists(named / "checkpoint.json")) return named;
  const fs::path path = get_checkpoints(named);
  check(path);
  if (const std::vector<std::string> names = saved_names(path); !names.empty()) {
    const std::string& name = names.front();
    const bool is_step = parse_step(name).has_value();  // other names may not be valid file names
    const fs::path newest = is_step ? published_folder(path / name) : path;
    if (is_step) check(newest);
    if (!is_step || !fs::exists(newest / "checkpoint.json"))
      throw std::runtime_error(fmt::format(
          "{} names the checkpoint {}, which does not exist: --resume=step-… or --checkpoint names another one",
          (path / "latest").string(), shown(name)));
    return newest;
  }
  if (!fs::is_directory(path)) return {};
  const auto complete = complete_checkpoints(path);  // finds a save that was interrupted before it wrote `latest`
  return complete.empty() ? fs::path() : complete.front();
}

namespace {

using nlohmann::json;
using Sizes = std::vector<int64_t>;

constexpr int64_t kFormat = 2;
constexpr const char* kProgram = "modular " MODULAR_VERSION;
constexpr const char* kIndexName = "checkpoint.json";
constexpr int64_t kMostIndexBytes = int64_t{512} << 20;

/// Number of elements, or nullopt if it does not fit in 63 bits.
std::optional<int64_t> volume(const Sizes& shape) {
  int64_t values = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(values, size, &values)) return {};
  return values;
}

/// Parses sizes or offsets. Throws nlohmann's exception if `value` is not a list of them.
Sizes get_sizes(const json& value) {
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && std::in_range<int64_t>(size.get<uint64_t>());
  };
  if (!value.is_array() || !std::ranges::all_of(value, is_size))
    throw json::other_error::create(501, fmt::format("{} is not a list of sizes", shown(value)), &value);
  return value.get<Sizes>();
}

/// Rejects a checkpoint.json of another format.
[[noreturn]] void reject_format(const fs::path& path, const json& index) {
  const json& format = index.at("format");
  if (!format.is_number_integer())
    throw std::runtime_error(
        fmt::format("{} is damaged, or another program wrote it: its format is {}, not a number. Restore "
                    "the file, or continue from another checkpoint",
                    path.string(), shown(format)));
  const json program = index.value("program", json());
  throw std::runtime_error(
      fmt::format("{} has the format {}, and this program, {}, reads format {}: {} version of modular{} wrote it. "
                  "Continue with that "
                  "version, or have its `modrun export` write the weights and start from them with model.checkpoint",
                  path.string(), shown(format), kProgram, kFormat, format > kFormat ? "a newer" : "an older",
                  program.is_string() ? fmt::format(" ({})", program.get<std::string>()) : ""));
}

/// Whether a slice of that offset and shape lies within a tensor.
bool lies_within(const StoredSlice& slice, const StoredTensor& tensor) {
  if (slice.offset.size() != tensor.shape.size() || slice.shape.size() != tensor.shape.size()) return false;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim)
    if (slice.offset[dim] < 0 || slice.shape[dim] < 0 || slice.offset[dim] > tensor.shape[dim] - slice.shape[dim])
      return false;
  return true;
}

void check_complete(const std::string& name, const StoredTensor& tensor, const fs::path& folder) {
  const std::optional<int64_t> values = volume(tensor.shape);
  if (!values)
    throw std::runtime_error(fmt::format("{} is damaged: \"{}\" is {}, more values than fit in 63 bits",
                                         (folder / kIndexName).string(), name, shape_text(tensor.shape)));
  int64_t held = 0;
  for (const StoredSlice& slice : tensor.slices)
    if (__builtin_add_overflow(held, volume(slice.shape).value_or(0), &held)) held = -1;
  if (held != *values)
    throw std::runtime_error(
        fmt::format("the files of {} hold {} values of \"{}\", which has {}: some slices have no owner, or several",
                    folder.string(), held, name, *values));
}

}  // namespace

std::string rank_file_name(int64_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }

std::vector<std::string> slice_keys(std::span<const TensorSlice> slices) {
  std::map<std::string_view, int> seen;
  std::vector<std::string> keys;
  for (const TensorSlice& slice : slices) {
    const int number = ++seen[slice.name];
    keys.push_back(number == 1 ? slice.name : fmt::format("{}#{}", slice.name, number));
  }
  return keys;
}

std::map<std::string, std::string> slice_metadata(std::span<const TensorSlice> slices) {
  const std::vector<std::string> keys = slice_keys(slices);
  json metadata = json::object();
  for (size_t i = 0; i < slices.size(); ++i)
    metadata[keys[i]] = {{"tensor", slices[i].name}, {"shape", slices[i].global_shape}, {"offset", slices[i].offset}};
  return {{"boxes", metadata.dump()}};
}

void write_index(const fs::path& folder, const TrainingState& state, const MeshShape& mesh, int64_t ranks) {
  json tensors = json::object();
  StoredTensors found;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto file = std::make_shared<const SafetensorsFile>(folder / rank_file_name(rank));
    const json slices = json::parse(file->metadata().at("boxes"));
    for (const auto& [key, slice] : slices.items()) {
      const std::vector<int64_t>& shape = file->tensors().find(key)->second.shape;
      const auto name = slice["tensor"].get<std::string>();
      StoredTensor& tensor = found[name];
      tensor.shape = slice["shape"].get<Sizes>();
      tensor.slices.push_back({nullptr, key, slice["offset"].get<Sizes>(), shape});
      tensors[name]["shape"] = tensor.shape;
      tensors[name]["boxes"].push_back(
          {{"file", rank_file_name(rank)}, {"key", key}, {"offset", slice["offset"]}, {"shape", shape}});
    }
  }
  for (const auto& [name, tensor] : found) check_complete(name, tensor, folder);
  const json index = {{"format", kFormat},     {"program", kProgram}, {"step", state.step},
                      {"state", state.values}, {"mesh", mesh.size},   {"tensors", tensors}};
  write_file(folder / kIndexName, index.dump(1) + "\n");
}

CheckpointIndex open_checkpoint(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexName;
  const std::string text = read_file(path, kMostIndexBytes);
  const json index = parse_json(text);
  CheckpointIndex opened;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> files;
  std::map<std::string, json> slices_in;  // slices by file, as the file's metadata describes them
  try {
    if (!index.is_object())
      throw std::runtime_error(fmt::format("{} is damaged: it is not a JSON object{}", path.string(),
                                           index.is_discarded() ? fmt::format(" ({})", json_problem(text)) : ""));
    if (index.at("format") != kFormat) reject_format(path, index);
    opened.state.step = get_sizes(json::array({index.at("step")})).front();
    opened.state.values = index.at("state").get<std::map<std::string, std::string>>();
    const Sizes mesh = get_sizes(index.at("mesh"));
    if (mesh.size() != opened.mesh.size.size())
      throw std::runtime_error(fmt::format("{} is damaged: its mesh has {} axes", path.string(), mesh.size()));
    std::ranges::copy(mesh, opened.mesh.size.begin());
    std::set<std::pair<std::string, std::string>> seen;  // file and key
    for (const auto& [name, entry] : index.at("tensors").items()) {
      StoredTensor& tensor = opened.tensors[name];
      tensor.shape = get_sizes(entry.at("shape"));
      for (const json& slice : entry.at("boxes")) {
        const auto file_name = slice.at("file").get<std::string>();
        auto& file = files[file_name];
        if (!file) {
          if (fs::path(file_name).filename() != file_name)
            throw std::runtime_error(fmt::format("{} is damaged: \"{}\" is not the name of a file in the same folder",
                                                 path.string(), file_name));
          file = std::make_shared<const SafetensorsFile>(checkpoint / file_name);
          slices_in[file_name] = parse_json(file->metadata().at("boxes"));
        }
        const auto key = slice.at("key").get<std::string>();
        tensor.slices.push_back({file, key, get_sizes(slice.at("offset")), get_sizes(slice.at("shape"))});
        if (!seen.emplace(file_name, key).second)
          throw std::runtime_error(
              fmt::format("{} is damaged: it names the slice \"{}\" of {} twice", path.string(), key, file_name));
        const auto stored = file->tensors().find(key);
        if (stored == file->tensors().end() || stored->second.shape != tensor.slices.back().shape ||
            !lies_within(tensor.slices.back(), tensor) ||
            slices_in[file_name].at(key) !=
                json{{"tensor", name}, {"shape", tensor.shape}, {"offset", tensor.slices.back().offset}})
          throw std::runtime_error(fmt::format("{} does not hold the slice of \"{}\" that {} says",
                                               file->path().string(), name, kIndexName));
      }
    }
  } catch (const json::exception& error) {
    throw std::runtime_error(fmt::format("{} is damaged: {}", path.string(), json_problem(error)));
  } catch (const std::out_of_range&) {
    throw std::runtime_error(fmt::format("{} names a file without the metadata \"boxes\"", path.string()));
  }
  for (const auto& [name, tensor] : opened.tensors) check_complete(name, tensor, checkpoint);
  return opened;
}

std::string parameter_error(const StoredTensors& tensors, const ModelConfig& model, const std::string& where) {
  for (const ModelParameter& parameter : model_parameters(model)) {
    const auto found = tensors.find(parameter.name);
    if (found == tensors.end())
      return fmt::format("{} has no \"{}\" {}, which the {} has", where, parameter.name,
                         shape_text(parameter.global_shape), model.entry->architecture);
    if (found->second.shape != parameter.global_shape)
      return fmt::format("{}: \"{}\" is {} and the {}'s is {}: use the config of the saved model", where,
                         parameter.name, shape_text(found->second.shape), model.entry->architecture,
                         shape_text(parameter.global_shape));
  }
  return {};
}

}  // namespace modular
