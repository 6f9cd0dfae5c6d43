#include "runtime/checkpoint/pretrained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/pretrained_files.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Tensors of old checkpoints that are not parameters: buffers that are recomputed, and a bias that T5 never used.
constexpr std::array<std::string_view, 7> kIgnoredEndings = {"rotary_emb.inv_freq",
                                                             ".attn.bias",
                                                             ".attn.masked_bias",
                                                             "embeddings.position_ids",
                                                             ".attention.bias",
                                                             ".attention.masked_bias",
                                                             "EncDecAttention.relative_attention_bias.weight"};

bool is_computed_again(std::string_view name, const StoredTensor& tensor) {
  // A bias that attention adds to its features has one dimension; masks have more.
  if (name.ends_with(".bias") && tensor.shape.size() == 1) return false;
  return std::ranges::any_of(kIgnoredEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

/// The shared embedding table of T5 and BART, and the names under which files hold copies of it, or only a copy.
constexpr std::string_view kSharedTable = "shared.weight";
constexpr std::string_view kTableCopies[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

/// Names of the copies of the parameter, for the stacks that the model has.
std::vector<std::string> find_copies(const Plan& plan, const std::string& name) {
  std::vector<std::string> copies;
  if (name != kSharedTable && !name.ends_with("." + std::string(kSharedTable))) return copies;
  const std::string prefix = name.substr(0, name.size() - kSharedTable.size());
  for (const std::string_view copy : kTableCopies) {
    const std::string stack = prefix + std::string(copy.substr(0, copy.find('.') + 1));
    if (std::ranges::any_of(plan.units, [&](std::string_view unit) { return unit.starts_with(stack); }))
      copies.push_back(prefix + std::string(copy));
  }
  return copies;
}

/// Whether no entry of the model's task computes with the parameter: sentence embeddings are computed from the hidden
/// states of all tokens, whatever pooler the base model has.
bool is_unused(const Entry& entry, std::string_view name) {
  return entry.task.starts_with("sentence-") && name.starts_with("pooler.");
}

/// First component of a tensor's path.
std::string_view head(std::string_view name) { return name.substr(0, name.find('.')); }

/// DeBERTa's head for replaced tokens, whose "classifier" is not that of a classifier of sequences.
constexpr std::string_view kOtherHead = "mask_predictions";

/// Looks up model names among a file's names, which may have or lack the base model's prefix.
class Names {
 public:
  explicit Names(const StoredTensors& stored) : stored_(stored) {
    for (const auto& [name, tensor] : stored)
      if (head(name) != kOtherHead) prefixes_.emplace(head(name));
  }

  /// The file's name of a parameter; empty if it has none.
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

/// Whether two parameters have equal values, piece by piece.
bool same_values(const StoredTensor& first, const StoredTensor& second) {
  return std::ranges::equal(first.slices, second.slices, [](const StoredSlice& left, const StoredSlice& right) {
    return at::equal(left.values(), right.values());
  });
}

/// Finds parameters in a folder, under the model's names or the names in its entry's files, and tracks which tensors
/// are used.
class Matcher {
 public:
  Matcher(const fs::path& folder, const ModelConfig& model)
      : folder_(folder), model_(model), stored_(open_pretrained_files(folder, model)), names_(stored_), body_(model) {}

  /// The parameter that the file holds under the model's name `alias`; nullopt if there is none. Throws if only some of
  /// its pieces exist, or if shapes differ.
  std::optional<StoredTensor> find(const std::string& alias, const std::vector<int64_t>& shape) {
    if (!names_.find(alias).empty())
      return take(alias, {{alias, std::vector<int64_t>(shape.size(), 0), shape, shape}}, shape);
    std::optional<StoredTensor> found;
    for (const auto& pieces : readable_pieces(*model_.entry, alias, shape))
      if (!found) found = take(alias, pieces, shape);
    return found;
  }

  /// Whether the file has the parameter with another number of rows, like a classifier with other labels. Marks it as
  /// used.
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

  /// Tensors of the folder that find() has not taken: heads and poolers that the model's class does not have. Throws if
  /// one belongs to the model's body. Call it after find() for all parameters.
  std::vector<std::string> others(const std::vector<ModelParameter>& parameters) {
    for (const ModelParameter& parameter : parameters)
      for (const std::string& alias : parameter.names) body_.add(alias, alias);
    std::vector<std::string> ignored, unexpected;
    const FurtherLayers further(model_);
    for (const auto& [name, tensor] : stored_) {
      if (is_computed_again(name, tensor) || used_.contains(name) || further.hold(name)) continue;
      if (body_.holds_in_file(name))
        unexpected.push_back(fmt::format("\"{}\" {}", tensor.slices.front().key, shape_text(tensor.shape)));
      else
        ignored.push_back(tensor.slices.front().key);
    }
    if (!unexpected.empty())
      throw std::runtime_error(fmt::format(
          "{} holds {}{}, which the {} of its config.json does not have", folder_.string(), unexpected[0],
          unexpected.size() > 1 ? fmt::format(" and {} more", unexpected.size() - 1) : "", model_.entry->architecture));
    return ignored;
  }

  /// Whether the model's name is the name of a layer or an embedding.
  bool is_body(std::string_view name) const { return body_.holds(name); }

  /// The file's name for the first piece of a tensor that find() returned.
  static const std::string& name_for(const StoredTensor& tensor) { return tensor.slices.front().key; }

 private:
  std::optional<StoredTensor> take(const std::string& alias, const std::vector<StateDictPiece>& pieces,
                                   const std::vector<int64_t>& shape) {
    StoredTensor found{shape, {}};
    std::vector<std::string> taken;
    std::string missing;
    for (const StateDictPiece& piece : pieces) {
      const std::string name = names_.find(piece.name);
      if (name.empty() || used_.contains(describe_use(name, piece.part, piece.parts))) {
        missing = piece.name;
        continue;
      }
      const StoredTensor& tensor = stored_.at(name);
      if (tensor.shape != piece.file_shape)
        throw std::runtime_error(fmt::format("{}: \"{}\" is {} and the {} of its config.json has {}", folder_.string(),
                                             tensor.slices[0].key, shape_text(tensor.shape), model_.entry->architecture,
                                             shape_text(piece.file_shape)));
      taken.push_back(name);
      found.slices.push_back(
          {tensor.slices[0].file, tensor.slices[0].key, piece.offset, piece.shape, piece.part, piece.parts});
    }
    if (found.slices.empty()) return {};
    if (!missing.empty())
      throw std::runtime_error(
          fmt::format("{} lacks \"{}\", though it holds \"{}\"", folder_.string(), missing, name_for(found)));
    for (size_t i = 0; i < taken.size(); ++i) {
      used_.insert({taken[i], describe_use(taken[i], pieces[i].part, pieces[i].parts)});
      body_.add(alias, taken[i]);
    }
    return found;
  }

  /// The used part of a file's tensor: all of it, or one of equal parts.
  static std::string describe_use(const std::string& name, int64_t part, int64_t parts) {
    return parts == 1 ? name : fmt::format("{}[{}/{}]", name, part, parts);
  }

  const fs::path& folder_;
  const ModelConfig& model_;
  StoredTensors stored_;
  Names names_;
  ModelBody body_;
  std::set<std::string> used_;
};

/// Acceptable differences between a folder and a model.
struct Differences {
  std::vector<std::string> fresh;    // parameters of a new head
  std::vector<std::string> unused;   // parameters that the folder lacks and the model's class does not use
  std::vector<std::string> ignored;  // tensors of other heads in the folder
};

/// The file's tensor of a parameter, under any of its names. Throws if it has several that differ.
std::optional<StoredTensor> find_tied(const fs::path& folder, const Plan& plan, Matcher& matcher,
                                      const ModelParameter& parameter) {
  std::optional<StoredTensor> source;
  const auto look_for = [&](const std::string& name, std::string_view hint) {
    std::optional<StoredTensor> tensor = matcher.find(name, parameter.global_shape);
    if (!tensor) return;
    if (source && !same_values(*source, *tensor))
      throw std::runtime_error(fmt::format("{}: \"{}\" and \"{}\" differ{}", folder.string(),
                                           Matcher::name_for(*source), Matcher::name_for(*tensor), hint));
    if (!source) source = std::move(tensor);
  };
  for (const std::string& alias : parameter.names)
    look_for(alias, " though the config ties them: set \"tie_word_embeddings\" to false in config.json");
  for (const std::string& copy : find_copies(plan, parameter.name)) look_for(copy, ": the model shares one table");
  return source;
}

/// The folder's tensors under the model's names. Throws if they do not match the model. Parameters that the folder may
/// lack are left out, and listed in `differences` if given.
StoredTensors match(const fs::path& folder, const ModelConfig& model, Head head = Head::stored,
                    Differences* differences = nullptr) {
  const bool may_have_other_labels =
      head == Head::may_be_new && find_task(model.entry->task)->label_count == "num_labels";
  const bool may_have_new_layers = head == Head::may_be_new;
  if (model.named.empty()) head = Head::stored;
  Matcher matcher(folder, model);
  StoredTensors matched;
  std::vector<std::string> missing;
  Differences found;
  const std::vector<ModelParameter> parameters = model_parameters(model);
  for (const ModelParameter& parameter : parameters) {
    if (may_have_other_labels && !matcher.is_body(parameter.name) &&
        matcher.leave_other_rows(parameter.name, parameter.global_shape)) {
      found.fresh.push_back(parameter.name);
      continue;
    }
    if (std::optional<StoredTensor> source = find_tied(folder, *model.entry->plan, matcher, parameter)) {
      if (parameter.tensor.is_floating_point()) reject_integers(parameter.name, *source);
      matched[parameter.name] = *std::move(source);
    } else if (is_unused(*model.entry, parameter.name)) {
      found.unused.push_back(parameter.name);
    } else if ((head == Head::may_be_new && !matcher.is_body(parameter.name)) ||
               (may_have_new_layers && lies_in(kEmbeddingLayers, parameter.name))) {
      found.fresh.push_back(parameter.name);
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
  found.ignored = matcher.others(parameters);
  if (differences) *differences = std::move(found);
  return matched;
}

/// The config flag of a tie if the folder holds both of its tensors and they differ.
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
        if (matches(tie.parameter, alias) || matches(tie.parameter, parameter.name)) return tie.flag;
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> new_parameters(const fs::path& folder, const ModelConfig& model) {
  if (is_peft_folder(folder)) return {};
  Differences differences;
  match(folder, as_stored(without_adapters(model), folder, Head::may_be_new), Head::may_be_new, &differences);
  return differences.fresh;
}

std::string weights_note(const fs::path& folder, const ModelConfig& model, Head head) {
  if (!find_checkpoint(folder).empty() || is_peft_folder(folder)) return {};
  Differences differences;
  match(folder, as_stored(without_adapters(model), folder, head), head, &differences);
  const auto list = [](std::span<const std::string> names) {
    constexpr size_t kNamed = 6;
    const auto first = names.first(std::min(names.size(), kNamed));
    return fmt::format("{}{}", fmt::join(first, ", "),
                       names.size() > kNamed ? fmt::format(" and {} more", names.size() - kNamed) : "");
  };
  std::vector<std::string> lines;
  const std::string_view architecture = model.entry->architecture;
  const auto is_of_embedding = [](const std::string& name) { return lies_in(kEmbeddingLayers, name); };
  if (const auto& fresh = differences.fresh; !fresh.empty())
    lines.push_back(
        std::ranges::all_of(fresh, is_of_embedding)
            ? fmt::format("{} lacks these layers after pooling, which are initialized: {}", folder.string(),
                          fmt::join(fresh, ", "))
        : model.named.empty()
            ? fmt::format("{} has another number of labels; initialized: {}", folder.string(), fmt::join(fresh, ", "))
            : fmt::format("{} holds a {}: parameters that only {} has are initialized: {}", folder.string(),
                          model.named, architecture, fmt::join(fresh, ", ")));
  if (head == Head::may_be_new && !differences.unused.empty())
    lines.push_back(fmt::format("{} lacks {}, which {} does not use: initialized", folder.string(),
                                list(differences.unused), architecture));
  if (!differences.ignored.empty())
    lines.push_back(fmt::format("{} holds {}, which {} does not have: ignored", folder.string(),
                                list(differences.ignored), architecture));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

bool may_be_missing(const ModelConfig& model, std::string_view parameter) { return is_unused(*model.entry, parameter); }

ModelConfig as_stored(const ModelConfig& grown, const fs::path& folder, Head head) {
  if (!grown.lora && !grown.added_rows_seed) return grown;
  const ModelConfig there = read_config(folder, nullptr, grown.base);
  const ModelConfig model = grown.added_rows_seed ? with_vocabulary_rows(grown, vocabulary_rows(there)) : grown;
  if (!model.lora || there.lora) return model;
  if (head == Head::may_be_new) return without_adapters(model);
  throw ConfigError(fmt::format(
      "{} holds no adapters, which lora.layers requires: leave it out (--set 'lora.layers=[]')", folder.string()));
}

ModelConfig read_pretrained_config(const fs::path& source, const Entry* as, const fs::path& base) {
  ModelConfig model = read_config(source, as, base);
  const fs::path& folder = model.base.empty() ? source : model.base;
  const fs::path transformer = transformer_folder(folder);
  const bool has_tensors = fs::exists(transformer / kPretrainedFile) || fs::exists(transformer / kPretrainedIndex);
  if (fs::exists(folder / "checkpoint.json") || !has_tensors) return model;
  ModelConfig of_folder = without_adapters(model);
  // A folder with adapters may have tables with more rows than the base's.
  if (!model.base.empty() && vocabulary_rows(model) > 0)
    of_folder = with_vocabulary_rows(of_folder, vocabulary_rows(read_config(folder)));
  if (const auto flag = broken_tie(folder, of_folder)) {
    // After finish(): fields derived from the config's own flag keep their values.
    json values = json::object({{*flag, false}});
    take_fields(*model.config, values, folder.string());
  }
  return model;
}

std::string pretrained_error(const fs::path& folder, const ModelConfig& model, Head head) {
  try {
    open_parameters(folder, model, head);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

StoredTensors open_parameters(const fs::path& folder, const ModelConfig& model, Head head) {
  const fs::path checkpoint = find_checkpoint(folder);
  const ModelConfig there = as_stored(model, checkpoint.empty() ? folder : checkpoint, head);
  StoredTensors stored = !checkpoint.empty()      ? open_checkpoint(checkpoint).tensors
                         : is_peft_folder(folder) ? open_peft(folder, there)
                                                  : match(folder, there, head);
  if (const auto error = checkpoint.empty() ? std::string() : parameter_error(stored, there, checkpoint.string());
      !error.empty())
    throw std::runtime_error(error);
  if (model.added_rows_seed) add_rows(stored, model, vocabulary_rows(there));
  return stored;
}

void load_parameters(const fs::path& folder, const ModelConfig& model, std::span<const TensorSlice> parameters) {
  load_parameters(folder, model, parameters, Head::stored);
}

void load_parameters(const fs::path& folder, const ModelConfig& model, std::span<const TensorSlice> parameters,
                     Head head) {
  const StoredTensors stored = open_parameters(folder, model, head);
  for (const TensorSlice& slice : parameters)
    if (const auto found = stored.find(slice.name); found != stored.end())
      read_slice(slice.name, found->second, slice.offset, slice.local);
}

}  // namespace modular
