#include "runtime/checkpoint/pretrained_files.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/files/open_file.h"
#include "runtime/files/run_path.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Names of old releases that transformers renames in all models ("legacy" in its conversion_mapping.py).
constexpr std::pair<std::string_view, std::string_view> kRenamedEndings[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                                                             {"LayerNorm.beta", "LayerNorm.bias"}};
constexpr std::pair<std::string_view, std::string_view> kRenamedBeginnings[] = {
    {"model.language_model.model.", "model.language_model."}, {"language_model.model.model.", "model.language_model."}};

std::string current_name(std::string name) {
  for (const auto& [old, current] : kRenamedEndings)
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), current);
  for (const auto& [old, current] : kRenamedBeginnings)
    if (name.starts_with(old)) name.replace(0, old.size(), current);
  return name;
}

StoredTensor full_tensor(const std::shared_ptr<const SafetensorsFile>& file, const std::string& name) {
  const std::vector<int64_t>& shape = file->tensors().find(name)->second.shape;
  return {shape, {{file, name, std::vector<int64_t>(shape.size(), 0), shape}}};
}

/// What to do about a folder that has no safetensors file.
std::string conversion_advice(const fs::path& folder, const ModelConfig& model) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!fs::exists(folder / name)) continue;
    const std::string model_class = model.named == kNoClass ? "AutoModelForPreTraining"
                                    : model.named.empty()   ? std::string(model.entry->architecture)
                                                            : model.named;
    return fmt::format(
        "holds {}, which is not read: write {} from it by python3 -c 'from transformers import {} as M; f = {}; "
        "M.from_pretrained(f).save_pretrained(f)'",
        name, kPretrainedFile, model_class, json(folder.string()).dump());
  }
  return fmt::format("holds neither {} nor {}: convert the checkpoint to safetensors", kPretrainedFile,
                     kPretrainedIndex);
}

/// The tensors of the files that the folder's index names.
StoredTensors open_shards(const fs::path& folder) {
  StoredTensors tensors;
  const json index = parse_json(read_file(folder / kPretrainedIndex));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw std::runtime_error(fmt::format("{} has no weight_map", (folder / kPretrainedIndex).string()));
  std::map<fs::path, std::shared_ptr<const SafetensorsFile>> files;
  for (const auto& [name, file_name] : index["weight_map"].items()) {
    if (!file_name.is_string())
      throw std::runtime_error(fmt::format("{} names no file for \"{}\"", (folder / kPretrainedIndex).string(), name));
    const fs::path place = fs::path(file_name.get<std::string>()).lexically_normal();
    if (place.empty() || place.is_absolute() || *place.begin() == "..")
      throw std::runtime_error(fmt::format("{} names the file {} for \"{}\": write one of the checkpoint's folder",
                                           (folder / kPretrainedIndex).string(), shown(file_name), name));
    auto& file = files[place];
    if (!file) {
      check_no_links({folder, place.parent_path()});
      file = std::make_shared<const SafetensorsFile>(folder / place);
    }
    if (!file->tensors().contains(name))
      throw std::runtime_error(
          fmt::format("{} has no \"{}\", which {} says it has", file->path().string(), name, kPretrainedIndex));
    tensors[name] = full_tensor(file, name);
  }
  return tensors;
}

}  // namespace

StoredTensors open_pretrained_files(const fs::path& folder, const ModelConfig& model) {
  StoredTensors stored;
  const fs::path place = transformer_folder(folder);
  if (fs::exists(place / kPretrainedFile)) {
    const auto file = std::make_shared<const SafetensorsFile>(place / kPretrainedFile);
    for (const auto& [name, header] : file->tensors()) stored[name] = full_tensor(file, name);
  } else if (fs::exists(place / kPretrainedIndex)) {
    stored = open_shards(place);
  } else {
    throw std::runtime_error(fmt::format("{} {}", place.string(), conversion_advice(place, model)));
  }
  StoredTensors renamed;
  for (auto& [name, tensor] : stored) {
    std::string current = current_name(name);
    // A file that holds both keeps both, and the old one is not the model's.
    if (current != name && stored.contains(current)) current = name;
    renamed[std::move(current)] = std::move(tensor);
  }
  if (find_task(model.entry->task)->texts == 1) return renamed;
  for (const auto& [prefix, path] : dense_weights(folder)) {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    for (const auto& [name, header] : file->tensors()) renamed[prefix + name] = full_tensor(file, name);
  }
  return renamed;
}

}  // namespace modular
