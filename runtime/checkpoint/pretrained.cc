#include "runtime/checkpoint/pretrained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/further_layers.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/checkpoint/stored_names.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/files/open_file.h"
#include "runtime/files/run_path.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameter_table.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What old checkpoints hold beside parameters: buffers that are computed again, copies of T5's table, and a bias that
/// it never used.
constexpr std::array<std::string_view, 9> kIgnoredEndings = {"rotary_emb.inv_freq",
                                                             ".attn.bias",
                                                             ".attn.masked_bias",
                                                             "embeddings.position_ids",
                                                             ".attention.bias",
                                                             ".attention.masked_bias",
                                                             "encoder.embed_tokens.weight",
                                                             "decoder.embed_tokens.weight",
                                                             "EncDecAttention.relative_attention_bias.weight"};

StoredTensor whole_tensor(const std::shared_ptr<const SafetensorsFile>& file, const std::string& name) {
  const std::vector<int64_t>& shape = file->tensors().find(name)->second.shape;
  return {shape, {{file, name, std::vector<int64_t>(shape.size(), 0), shape}}};
}

/// The tensors of a Hugging Face folder under the names that its files give them.
StoredTensors open_folder(const fs::path& folder) {
  StoredTensors tensors;
  if (fs::exists(folder / kPretrainedIndex)) {
    const json index = parse_json(read_file(folder / kPretrainedIndex));
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
      throw std::runtime_error(fmt::format("{} has no weight_map", (folder / kPretrainedIndex).string()));
    std::map<fs::path, std::shared_ptr<const SafetensorsFile>> files;
    for (const auto& [name, file_name] : index["weight_map"].items()) {
      if (!file_name.is_string())
        throw std::runtime_error(
            fmt::format("{} names no file for \"{}\"", (folder / kPretrainedIndex).string(), name));
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
      tensors[name] = whole_tensor(file, name);
    }
    return tensors;
  }
  if (!fs::exists(folder / kPretrainedFile))
    throw std::runtime_error(fmt::format("{} holds neither {} nor {}: convert the checkpoint to safetensors",
                                         folder.string(), kPretrainedFile, kPretrainedIndex));
  const auto file = std::make_shared<const SafetensorsFile>(folder / kPretrainedFile);
  for (const auto& [name, header] : file->tensors()) tensors[name] = whole_tensor(file, name);
  return tensors;
}

/// The tensors of a Hugging Face folder, of Sentence Transformers' dense layers too where the model has an
/// EmbeddingHead.
StoredTensors open_folder(const fs::path& folder, const ModelConfig& model) {
  StoredTensors tensors = open_folder(folder);
  if (find_task(model.entry->task)->texts == 1) return tensors;
  for (const auto& [prefix, path] : dense_weights(folder)) {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    for (const auto& [name, header] : file->tensors()) tensors[prefix + name] = whole_tensor(file, name);
  }
  return tensors;
}

/// The first component of a tensor's path.
std::string_view head(std::string_view name) { return name.substr(0, name.find('.')); }

/// Finds model names among a file's, which may have the base model's prefix or lack it.
class Names {
 public:
  explicit Names(const StoredTensors& stored) : stored_(stored) {
    for (const auto& [name, tensor] : stored) prefixes_.emplace(head(name));
  }

  /// The file's name of a parameter; empty where it has none.
  std::string find(const std::string& name) const {
    if (stored_.contains(name)) return name;
    const auto dot = name.find('.');
    if (dot != std::string::npos && stored_.contains(name.substr(dot + 1))) return name.substr(dot + 1);
    for (const std::string& prefix : prefixes_)
      if (std::string prefixed = prefix + "." + name; stored_.contains(prefixed)) return prefixed;
    return {};
  }

 private:
  const StoredTensors& stored_;
  std::set<std::string> prefixes_;
};

/// The values of two parameters, piece by piece.
bool same_values(const StoredTensor& one, const StoredTensor& other) {
  return std::ranges::equal(one.boxes, other.boxes, [](const StoredBox& left, const StoredBox& right) {
    return at::equal(left.values(), right.values());
  });
}

/// Finds parameters in a folder, under the model's names or those of its entry's files, and keeps account of them.
class Matcher {
 public:
  Matcher(const fs::path& folder, const ModelConfig& model)
      : folder_(folder), model_(model), stored_(open_folder(folder, model)), names_(stored_) {}

  /// The parameter as the file holds it under the model's name `alias`; nothing where it does not. Throws where only
  /// some of its pieces are there, or shapes differ.
  std::optional<StoredTensor> find(const std::string& alias, const std::vector<int64_t>& shape) {
    if (!names_.find(alias).empty()) return take({{alias, std::vector<int64_t>(shape.size(), 0), shape, shape}}, shape);
    std::optional<StoredTensor> found;
    for (const auto& pieces : readable_pieces(*model_.entry, alias, shape))
      if (!found) found = take(pieces, shape);
    return found;
  }

  /// Whether the file has the parameter for another number of rows, as a classifier of other labels has. It then counts
  /// as taken.
  bool leave_other_rows(const std::string& alias, const std::vector<int64_t>& shape) {
    const std::string name = names_.find(alias);
    if (name.empty() || shape.empty()) return false;
    const std::vector<int64_t>& stored = stored_.at(name).shape;
    if (stored.size() != shape.size() || stored[0] == shape[0] ||
        !std::equal(stored.begin() + 1, stored.end(), shape.begin() + 1))
      return false;
    used_.insert(name);
    return true;
  }

  /// Throws where the folder holds what find() has not taken, of another class what is part of the body.
  void refuse_others(Head head) const {
    std::vector<std::string> unexpected;
    const FurtherLayers further(model_);
    for (const auto& [name, tensor] : stored_) {
      const bool ignored =
          std::ranges::any_of(kIgnoredEndings, [&](std::string_view ending) { return name.ends_with(ending); }) ||
          further.hold(name);
      if (!ignored && !used_.contains(name) && (head == Head::stored || is_body(name)))
        unexpected.push_back(fmt::format("\"{}\" {}", name, shape_text(tensor.shape)));
    }
    if (!unexpected.empty())
      throw std::runtime_error(fmt::format(
          "{} holds {}{}, which the {} of its config.json does not have", folder_.string(), unexpected[0],
          unexpected.size() > 1 ? fmt::format(" and {} more", unexpected.size() - 1) : "", model_.entry->architecture));
  }

  /// Whether the model's or a file's name is that of a layer or an embedding.
  bool is_body(std::string_view name) const {
    const size_t dot = name.find('.');
    const std::string_view stripped = dot == std::string_view::npos ? name : name.substr(dot + 1);
    const auto holds = [&](std::string_view pattern) {
      const size_t end = pattern.find('.');
      const std::string_view inner = end == std::string_view::npos ? pattern : pattern.substr(end + 1);
      return lies_in(pattern, name) || lies_in(pattern, stripped) || (inner != pattern && lies_in(inner, name));
    };
    const Plan& plan = *model_.entry->plan;
    return std::ranges::any_of(plan.units, holds) || std::ranges::any_of(plan.first, holds) ||
           (plan.first_tower && std::ranges::any_of(plan.first_tower->first, holds));
  }

  /// The name that a file gives the first piece of a tensor that find() returned.
  static const std::string& name_of(const StoredTensor& tensor) { return tensor.boxes.front().key; }

 private:
  std::optional<StoredTensor> take(const std::vector<StoredPiece>& pieces, const std::vector<int64_t>& shape) {
    StoredTensor found{shape, {}};
    std::string missing;
    for (const StoredPiece& piece : pieces) {
      const std::string name = names_.find(piece.name);
      if (name.empty() || used_.contains(use_of(name, piece.part, piece.parts))) {
        missing = piece.name;
        continue;
      }
      const StoredTensor& tensor = stored_.at(name);
      if (tensor.shape != piece.file_shape)
        throw std::runtime_error(fmt::format("{}: \"{}\" is {} and the {} of its config.json has {}", folder_.string(),
                                             name, shape_text(tensor.shape), model_.entry->architecture,
                                             shape_text(piece.file_shape)));
      found.boxes.push_back({tensor.boxes[0].file, name, piece.offset, piece.shape, piece.part, piece.parts});
    }
    if (found.boxes.empty()) return {};
    if (!missing.empty())
      throw std::runtime_error(
          fmt::format("{} lacks \"{}\", though it holds \"{}\"", folder_.string(), missing, name_of(found)));
    for (const StoredBox& box : found.boxes) used_.insert({box.key, use_of(box.key, box.part, box.parts)});
    return found;
  }

  /// What is used of a file's tensor: all, or one of its parts.
  static std::string use_of(const std::string& name, int64_t part, int64_t parts) {
    return parts == 1 ? name : fmt::format("{}[{}/{}]", name, part, parts);
  }

  const fs::path& folder_;
  const ModelConfig& model_;
  StoredTensors stored_;
  Names names_;
  std::set<std::string> used_;
};

/// The folder's tensors under the model's names. Throws where they are not the model's. Parameters of a new head are
/// left out, and named in `fresh` where that is given.
StoredTensors match(const fs::path& folder, const ModelConfig& model, Head head = Head::stored,
                    std::vector<std::string>* fresh = nullptr) {
  const bool may_have_other_labels =
      head == Head::may_be_new && find_task(model.entry->task)->label_count == "num_labels";
  const bool may_have_new_layers = head == Head::may_be_new;
  if (model.named.empty()) head = Head::stored;
  Matcher matcher(folder, model);
  StoredTensors matched;
  std::vector<std::string> missing;
  for (const ModelParameter& parameter : model_parameters(model)) {
    if (may_have_other_labels && !matcher.is_body(parameter.name) &&
        matcher.leave_other_rows(parameter.name, parameter.global_shape)) {
      if (fresh) fresh->push_back(parameter.name);
      continue;
    }
    std::optional<StoredTensor> source;
    for (const std::string& alias : parameter.names) {
      std::optional<StoredTensor> tensor = matcher.find(alias, parameter.global_shape);
      if (!tensor) continue;
      if (source && !same_values(*source, *tensor))
        throw std::runtime_error(
            fmt::format("{}: \"{}\" and \"{}\" differ though the config ties them: write "
                        "\"tie_word_embeddings\": false into config.json",
                        folder.string(), Matcher::name_of(*source), Matcher::name_of(*tensor)));
      source = std::move(tensor);
    }
    if (source) {
      if (parameter.tensor.is_floating_point()) refuse_integers(parameter.name, *source);
      matched[parameter.name] = *std::move(source);
    } else if ((head == Head::may_be_new && !matcher.is_body(parameter.name)) ||
               (may_have_new_layers && lies_in(kEmbeddingLayers, parameter.name))) {
      if (fresh) fresh->push_back(parameter.name);
    } else {
      missing.push_back(fmt::format("\"{}\" {}", parameter.name, shape_text(parameter.global_shape)));
    }
  }
  if (!missing.empty())
    throw std::runtime_error(fmt::format(
        "{} lacks {}{}, which the {} of its config.json has", folder.string(), missing[0],
        missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "", model.entry->architecture));
  if (matched.empty())
    throw std::runtime_error(fmt::format("{} holds no parameter of {}", folder.string(), model.entry->architecture));
  matcher.refuse_others(head);
  return matched;
}

/// The tie's flag where the folder holds both of its tensors and they differ.
std::optional<std::string> broken_tie(const fs::path& folder, const ModelConfig& model) {
  if (model.entry->plan->ties.empty()) return {};
  Matcher matcher(folder, model);
  for (const ModelParameter& parameter : model_parameters(model)) {
    if (parameter.names.size() == 1) continue;
    std::optional<StoredTensor> first;
    for (const std::string& alias : parameter.names) {
      std::optional<StoredTensor> tensor = matcher.find(alias, parameter.global_shape);
      if (!tensor) continue;
      if (!first) {
        first = std::move(tensor);
        continue;
      }
      if (same_values(*first, *tensor)) continue;
      for (const auto& tie : model.entry->plan->ties)
        if (matches(tie.parameter, alias) || matches(tie.parameter, parameter.name)) return std::string(tie.flag);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> new_parameters(const fs::path& folder, const ModelConfig& model) {
  std::vector<std::string> fresh;
  match(folder, without_adapters(model), Head::may_be_new, &fresh);
  return fresh;
}

std::string new_head_note(const fs::path& folder, const ModelConfig& model) {
  const std::vector<std::string> fresh = new_parameters(folder, model);
  if (fresh.empty()) return {};
  if (std::ranges::all_of(fresh, [](const std::string& name) { return lies_in(kEmbeddingLayers, name); }))
    return fmt::format("{} has no such layers after pooling; initialized: {}", folder.string(), fmt::join(fresh, ", "));
  if (model.named.empty())
    return fmt::format("{} is of another number of labels; initialized: {}", folder.string(), fmt::join(fresh, ", "));
  return fmt::format("{} holds a {}: what {} has in addition is initialized: {}", folder.string(), model.named,
                     model.entry->architecture, fmt::join(fresh, ", "));
}

ModelConfig as_stored(const ModelConfig& model, const fs::path& folder, Head head) {
  if (!model.lora || read_config(folder).lora) return model;
  if (head == Head::may_be_new) return without_adapters(model);
  throw ConfigError(fmt::format(
      "{} holds no adapters, which lora.layers asks for: leave it out (--set 'lora.layers=[]')", folder.string()));
}

ModelConfig read_pretrained_config(const fs::path& folder, const Entry* as) {
  ModelConfig model = read_config(folder, as);
  const bool has_tensors = fs::exists(folder / kPretrainedFile) || fs::exists(folder / kPretrainedIndex);
  if (fs::exists(folder / "checkpoint.json") || !has_tensors) return model;
  if (const auto flag = broken_tie(folder, model)) {
    // After finish(): what follows from the config's own flag stays.
    json values = json::object({{*flag, false}});
    take_fields(*model.config, values, folder.string());
  }
  return model;
}

std::string pretrained_refusal(const fs::path& folder, const ModelConfig& model, Head head) {
  try {
    match(folder, as_stored(model, folder, head), head);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

StoredTensors open_parameters(const fs::path& folder, const ModelConfig& model, Head head) {
  const fs::path checkpoint = find_checkpoint(folder);
  if (checkpoint.empty()) return match(folder, as_stored(model, folder, head), head);
  StoredTensors stored = open_checkpoint(checkpoint).tensors;
  if (const auto refusal = parameter_refusal(stored, as_stored(model, checkpoint, head), checkpoint.string());
      !refusal.empty())
    throw std::runtime_error(refusal);
  return stored;
}

void load_parameters(const fs::path& folder, const ModelConfig& model, std::span<const TensorBox> parameters) {
  load_parameters(folder, model, parameters, Head::stored);
}

void load_parameters(const fs::path& folder, const ModelConfig& model, std::span<const TensorBox> parameters,
                     Head head) {
  const StoredTensors stored = open_parameters(folder, model, head);
  for (const TensorBox& box : parameters)
    if (const auto found = stored.find(box.name); found != stored.end())
      read_box(box.name, found->second, box.offset, box.local);
}

}  // namespace modular
