#include "runtime/checkpoint/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
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
