#include "runtime/checkpoint/pretrained_files.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

/// The components of `name` that match the pattern's "*"; nullopt if it does not match.
std::optional<std::vector<std::string_view>> captures(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> found;
  while (true) {
    const size_t pattern_end = pattern.find('.'), name_end = name.find('.');
    const std::string_view wanted = pattern.substr(0, pattern_end), given = name.substr(0, name_end);
    if (wanted == "**") {
      found.push_back(name);
      return found;
    }
    if (wanted == "*")
      found.push_back(given);
    else if (wanted != given)
      return {};
    if ((pattern_end == std::string_view::npos) != (name_end == std::string_view::npos)) return {};
    if (pattern_end == std::string_view::npos) return found;
    pattern.remove_prefix(pattern_end + 1);
    name.remove_prefix(name_end + 1);
  }
}

/// The pattern with its "*" and "#" replaced.
std::string filled(std::string_view pattern, const std::vector<std::string_view>& stars, int64_t index) {
  std::string text;
  size_t next = 0;
  for (size_t position = 0; position < pattern.size(); ++position) {
    const char c = pattern[position];
    if (c == '*') {
      text.append(stars.at(next++));
      if (pattern.substr(position).starts_with("**")) ++position;
    } else if (c == '#') {
      text.append(std::to_string(index));
    } else {
      text.push_back(c);
    }
  }
  return text;
}

/// Strips "[0/2]" from the end of the piece's name and sets `part` and `parts`.
void read_part_of_file(StateDictPiece& piece) {
  const size_t open = piece.name.rfind('['), slash = piece.name.rfind('/');
  if (!piece.name.ends_with(']') || open == std::string::npos) return;
  piece.part = std::stoll(piece.name.substr(open + 1));
  piece.parts = std::stoll(piece.name.substr(slash + 1));
  piece.file_shape.front() *= piece.parts;
  piece.name.resize(open);
}

std::vector<StateDictPiece> cut(const StoredAs& rule, const std::vector<std::string_view>& stars,
                                const std::vector<int64_t>& shape) {
  const auto parts = static_cast<int64_t>(rule.names.size());
  const bool indexed = rule.names.front().find('#') != std::string_view::npos;
  const size_t part_dim = indexed ? 1 : 0;
  TORCH_INTERNAL_ASSERT((parts == 1 && !indexed) || (shape.size() > part_dim && shape[part_dim] % parts == 0),
                        rule.parameter);
  std::vector<StateDictPiece> pieces;
  for (int64_t index = 0; index < (indexed ? shape[0] : 1); ++index)
    for (int64_t part = 0; part < parts; ++part) {
      StateDictPiece& piece = pieces.emplace_back();
      piece.name = filled(rule.names[static_cast<size_t>(part)], stars, index);
      piece.offset.assign(shape.size(), 0);
      piece.shape = shape;
      if (indexed) piece.offset[0] = index, piece.shape[0] = 1;
      if (parts > 1) {
        piece.shape[part_dim] /= parts;
        piece.offset[part_dim] += part * piece.shape[part_dim];
      }
      piece.file_shape.assign(piece.shape.begin() + (indexed ? 1 : 0), piece.shape.end());
      read_part_of_file(piece);
    }
  return pieces;
}

}  // namespace

std::vector<std::vector<StateDictPiece>> readable_pieces(const Entry& entry, const std::string& name,
                                                         const std::vector<int64_t>& shape) {
  std::vector<std::vector<StateDictPiece>> all;
  for (const StoredAs& rule : entry.stored_as)
    if (const auto stars = captures(rule.parameter, name)) all.push_back(cut(rule, *stars, shape));
  if (all.empty()) all.push_back({{name, std::vector<int64_t>(shape.size(), 0), shape, shape}});
  return all;
}

std::vector<StateDictPiece> state_dict_pieces(const Entry& entry, const std::string& name,
                                              const std::vector<int64_t>& shape) {
  return readable_pieces(entry, name, shape).front();
}

namespace {

std::string_view without_first(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string get_module(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

/// "encoder.layer." for "encoder.layer.0.output.dense.weight"; empty if no component is a number.
std::string before_first_index(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (!component.empty() && std::ranges::all_of(component, [](unsigned char c) { return std::isdigit(c); }))
      return std::string(name.substr(0, begin));
    begin = end + 1;
  }
  return {};
}

/// Rest of `name`, which matches `pattern`, after as many components as `pattern` has.
std::string_view behind(std::string_view pattern, std::string_view name) {
  for (auto components = std::ranges::count(pattern, '.') + 1; components > 0; --components)
    name = name.find('.') == std::string_view::npos ? std::string_view() : without_first(name);
  return name;
}

std::vector<std::string> get_embeddings(const Plan& plan) {
  std::vector<std::string> modules = plan.first;
  if (plan.first_stack) modules.insert(modules.end(), plan.first_stack->first.begin(), plan.first_stack->first.end());
  return modules;
}

}  // namespace

ModelBody::ModelBody(const ModelConfig& model)
    : plan_(*model.entry->plan), is_of_another_class_(!model.named.empty() && model.named != kNoClass) {}

bool ModelBody::holds(std::string_view name) const {
  const auto is_in = [&](std::string_view pattern) {
    const std::string_view inner = without_first(pattern);  // without the base model's prefix
    return lies_in(pattern, name) || lies_in(pattern, without_first(name)) ||
           (inner != pattern && lies_in(inner, name));
  };
  return std::ranges::any_of(plan_.units, is_in) || std::ranges::any_of(get_embeddings(plan_), is_in);
}

bool ModelBody::holds_in_file(const std::string& name) const {
  return holds(name) || std::ranges::any_of(paths_, [&](const std::string& path) { return name.starts_with(path); }) ||
         (!is_of_another_class_ && modules_.contains(get_module(name)));
}

void ModelBody::add(const std::string& name, const std::string& file_name) {
  modules_.insert(get_module(file_name));
  const auto holds_name = [&](std::string_view pattern) { return lies_in(pattern, name); };
  if (std::ranges::any_of(plan_.units, holds_name))
    if (std::string path = before_first_index(file_name); !path.empty()) paths_.insert(std::move(path));
  for (const std::string& pattern : get_embeddings(plan_)) {
    if (!holds_name(pattern)) continue;
    const std::string_view rest = behind(pattern, name);
    if (!rest.empty() && file_name.size() > rest.size() && file_name.ends_with(rest))
      paths_.insert(file_name.substr(0, file_name.size() - rest.size()));
  }
}

using nlohmann::json;

FurtherLayers::FurtherLayers(const ModelConfig& model) : path_(model.entry->plan->split_list + ".") {
  const json config = json::parse(model.other_keys);
  const auto count = config.find("num_nextn_predict_layers");
  const ConfigIntegers integers = config_integers(*model.config);
  const auto layers = integers.find("num_hidden_layers");
  if (count == config.end() || !count->is_number_unsigned() || layers == integers.end()) return;
  first_ = static_cast<uint64_t>(layers->second);
  count_ = count->get<uint64_t>();
}

bool FurtherLayers::hold(std::string_view name) const {
  if (!name.starts_with(path_)) return false;
  name.remove_prefix(path_.size());
  uint64_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, layer);
  return error == std::errc() && rest != end && *rest == '.' && layer >= first_ && layer - first_ < count_;
}

namespace {

namespace fs = std::filesystem;

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

/// Advice for a folder that has no safetensors file.
std::string conversion_advice(const fs::path& folder, const ModelConfig& model) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!fs::exists(folder / name)) continue;
    const std::string model_class = model.named == kNoClass ? "AutoModelForPreTraining"
                                    : model.named.empty()   ? std::string(model.entry->architecture)
                                                            : model.named;
    return fmt::format(
        "holds {}, which is not supported: convert it to {} with python3 -c 'from transformers import {} as M; f = {}; "
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
    const fs::path shard = fs::path(file_name.get<std::string>()).lexically_normal();
    if (shard.empty() || shard.is_absolute() || *shard.begin() == "..")
      throw std::runtime_error(fmt::format("{} names the file {} for \"{}\": write one of the checkpoint's folder",
                                           (folder / kPretrainedIndex).string(), shown(file_name), name));
    auto& file = files[shard];
    if (!file) {
      check_no_links({folder, shard.parent_path()});
      file = std::make_shared<const SafetensorsFile>(folder / shard);
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
  const fs::path transformer = transformer_folder(folder);
  if (fs::exists(transformer / kPretrainedFile)) {
    const auto file = std::make_shared<const SafetensorsFile>(transformer / kPretrainedFile);
    for (const auto& [name, header] : file->tensors()) stored[name] = full_tensor(file, name);
  } else if (fs::exists(transformer / kPretrainedIndex)) {
    stored = open_shards(transformer);
  } else {
    throw std::runtime_error(fmt::format("{} {}", transformer.string(), conversion_advice(transformer, model)));
  }
  StoredTensors renamed;
  for (auto& [name, tensor] : stored) {
    std::string current = current_name(name);
    // If a file holds both, both stay, and the old one is not the model's.
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
