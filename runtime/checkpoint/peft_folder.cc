#include "runtime/checkpoint/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/peft_options.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPrefixes = 16;  // prefixes under which names are looked up; models have a few

/// Components that PEFT inserts into the names of tables and heads that it saves with the adapters: the module that it
/// wraps or trains, and a module that another one has replaced.
constexpr std::array<std::string_view, 3> kWrappers = {".modules_to_save.", ".token_adapter.", ".base_layer."};
constexpr std::array<std::string_view, 2> kReplaced = {".original_module.", ".trainable_tokens_original"};

/// The tensors of adapter_model.safetensors, by their names without PEFT's prefix.
class PeftTensors {
 public:
  explicit PeftTensors(const fs::path& folder) : path_(folder / kPeftWeights) {
    if (!is_there(path_))
      throw ConfigError(
          fmt::format("{} does not exist: save the adapter as safetensors (safe_serialization=True)", path_.string()));
    const auto file = std::make_shared<const SafetensorsFile>(path_);
    for (const auto& [name, header] : file->tensors()) {
      if (!name.starts_with(kPeftPrefix))
        throw ConfigError(fmt::format("{} holds \"{}\": the names of PEFT's tensors begin with \"{}\"", path_.string(),
                                      name, kPeftPrefix));
      std::string path = name.substr(kPeftPrefix.size());
      const auto is_in_path = [&](std::string_view part) { return path.find(part) != std::string::npos; };
      if (std::ranges::any_of(kReplaced, is_in_path)) continue;
      for (const std::string_view wrapper : kWrappers)
        if (const size_t at = path.find(wrapper); at != std::string::npos) path.erase(at, wrapper.size() - 1);
      tensors_[path] = {header.shape, {{file, name, std::vector<int64_t>(header.shape.size(), 0), header.shape}}};
      if (prefixes_.size() < kMostPrefixes) prefixes_.insert(path.substr(0, path.find('.')));
    }
  }

  const fs::path& path() const { return path_; }

  /// The tensor of that name, with or without the base model's prefix; null if there is none.
  const StoredTensor* find(const std::string& name) {
    std::vector<std::string> names = {name};
    if (const size_t dot = name.find('.'); dot != std::string::npos) names.push_back(name.substr(dot + 1));
    for (const std::string& prefix : prefixes_) names.push_back(fmt::format("{}.{}", prefix, name));
    for (const std::string& candidate : names)
      if (const auto found = tensors_.find(candidate); found != tensors_.end()) {
        used_.insert(candidate);
        return &found->second;
      }
    return nullptr;
  }

  void check_all_used(const Entry& entry) const {
    for (const auto& [name, tensor] : tensors_)
      if (!used_.contains(name))
        throw ConfigError(
            fmt::format("{} holds \"{}{}\" {}, which is neither an adapter of a linear layer of {} nor a "
                        "parameter of it: merge the adapter into its base with PEFT (merge_and_unload)",
                        path_.string(), kPeftPrefix, name, shape_text(tensor.shape), entry.architecture));
  }

 private:
  fs::path path_;
  StoredTensors tensors_;
  std::set<std::string> prefixes_, used_;
};

/// Contents of a folder, matched with a model.
struct PeftContents {
  struct Layer {
    std::string name, module;  // the model's name here, and transformers' module path
    StoredTensor a, b;
  };
  std::vector<Layer> layers;
  StoredTensors replaced;                        // parameters that replace the base's
  std::map<std::string, StoredRows> token_rows;  // of the base's parameters
  std::vector<std::string> trained;  // module paths that modules_to_save names; all their parameters are in the folder
  std::vector<std::string> untrained;  // the other parameters of `replaced`
};

/// The path among `names` of the module that has the parameter; empty if there is none.
std::string saved_module(const std::string& parameter, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (size_t at = parameter.find(name); at != std::string::npos; at = parameter.find(name, at + 1)) {
      const size_t end = at + name.size();
      if ((at == 0 || parameter[at - 1] == '.') && end < parameter.size() && parameter[end] == '.')
        return parameter.substr(0, end);
    }
  return {};
}

/// The folder's own copy of a base parameter; null if it has none.
const StoredTensor* saved_parameter(PeftTensors& tensors, const Entry& entry, const ModelParameter& parameter) {
  const StoredTensor* found = nullptr;
  for (const std::string& name : parameter.names) {
    const std::string module = to_peft_module(entry, name, parameter.global_shape);
    if (module.empty()) continue;
    const StoredTensor* const saved = tensors.find(module + name.substr(name.rfind('.')));
    if (saved && found &&
        (saved->shape != found->shape ||
         !read_full(name, *saved, at::kFloat).equal(read_full(name, *found, at::kFloat))))
      throw ConfigError(
          fmt::format("{}: \"{}\" and \"{}\" differ, though the base ties them: merge the adapter into "
                      "its base with PEFT (merge_and_unload)",
                      tensors.path().string(), parameter.name, name));
    if (saved) found = saved;
  }
  return found;
}

/// Rows that replace rows of the base's table; the base may tie the table to other modules, under the further names.
/// nullopt if the folder has none. Adds the matching keys of trainable_token_indices to `used`.
std::optional<StoredRows> saved_rows(PeftTensors& tensors, const Entry& entry, const ModelParameter& parameter,
                                     const PeftOptions& options, std::set<std::string>& used) {
  constexpr const char* kMerge = "merge the adapter into its base with PEFT (merge_and_unload)";
  std::optional<StoredRows> rows;
  std::vector<const std::string*> keys;
  for (const std::string& name : parameter.names) {
    const std::string module = to_peft_module(entry, name, parameter.global_shape);
    if (module.empty() || !name.ends_with(".weight") || parameter.global_shape.size() != 2) continue;
    const std::string* const key = token_rows_key(options, module);
    if (key) keys.push_back(key);
    const StoredTensor* const found = tensors.find(module + std::string(kPeftTokenRows));
    if (!found) continue;
    const std::string where = fmt::format("{}: \"{}{}\"", tensors.path().string(), module, kPeftTokenRows);
    if (!key && !rows)
      throw ConfigError(fmt::format("{} has rows of a table, but \"trainable_token_indices\" of {} has no ids for them",
                                    where, options.where));
    // For a tied head with extra rows the file repeats the rows of the table.
    const std::vector<int64_t>& ids = key ? options.token_rows.at(*key) : rows->ids;
    if (found->shape != std::vector{std::ssize(ids), parameter.global_shape[1]})
      throw ConfigError(fmt::format("{} is {}, and \"trainable_token_indices\" has {} ids for a table of {}", where,
                                    shape_text(found->shape), ids.size(), shape_text(parameter.global_shape)));
    for (const int64_t id : ids)
      if (id >= parameter.global_shape[0])
        throw ConfigError(fmt::format("{}: \"trainable_token_indices\" has {}, and the table of {} is {}",
                                      options.where, id, module, shape_text(parameter.global_shape)));
    if (rows && !read_full(name, *found, at::kFloat).equal(read_full(name, rows->values, at::kFloat)))
      throw ConfigError(fmt::format("{} differs from the rows of \"{}\", which the base ties to it: {}", where,
                                    parameter.name, kMerge));
    // PEFT ties the rows to further modules only if they belong to the token embedding.
    if (!rows && name != parameter.name)
      throw ConfigError(
          fmt::format("{} has rows of a module that the base ties to \"{}\", and PEFT changes only "
                      "that one: {}",
                      where, parameter.name, kMerge));
    if (parameter.name == "shared.weight" && parameter.names.size() == 1)
      throw ConfigError(
          fmt::format("{} has rows of a table that PEFT does not use if the head is untied: {}", where, kMerge));
    if (!rows) rows = StoredRows{ids, *found};
  }
  if (!rows) return rows;
  for (const std::string* key : keys) {
    if (options.token_rows.at(*key) != rows->ids)
      throw ConfigError(
          fmt::format("{}: \"trainable_token_indices\" has different ids for {} and for \"{}\", which the "
                      "base ties: {}",
                      options.where, *key, parameter.name, kMerge));
    used.insert(*key);
  }
  return rows;
}

PeftContents get_contents(PeftTensors& tensors, const ModelConfig& base, const PeftOptions& options) {
  PeftContents contents;
  std::set<std::string> used;
  for (const ModelParameter& parameter : model_parameters(base)) {
    const std::string module = to_peft_module(*base.entry, parameter.name, parameter.global_shape);
    if (module.empty()) continue;
    const std::string last = parameter.name.substr(parameter.name.rfind('.') + 1);
    if (last == "weight" && parameter.global_shape.size() == 2) {
      const StoredTensor* const a = tensors.find(module + ".lora_A.weight");
      const StoredTensor* const b = tensors.find(module + ".lora_B.weight");
      if (!a != !b)
        throw ConfigError(
            fmt::format("{} has only one of the two matrices of {}'s adapter", tensors.path().string(), module));
      if (a) {
        const std::vector<int64_t>& shape = parameter.global_shape;
        const auto fits = [&](int64_t in, int64_t out) {
          return a->shape == std::vector{a->shape[0], in} && b->shape == std::vector{out, a->shape[0]};
        };
        if (a->shape.size() != 2 || (!fits(shape[1], shape[0]) && !fits(shape[0], shape[1])))
          throw ConfigError(fmt::format("{}: the adapter of {} has the matrices {} and {}, and its weight is {}",
                                        tensors.path().string(), module, shape_text(a->shape), shape_text(b->shape),
                                        shape_text(shape)));
        contents.layers.push_back({parameter.name.substr(0, parameter.name.rfind('.')), module, *a, *b});
      }
    }
    if (const auto rows = saved_rows(tensors, *base.entry, parameter, options, used)) {
      const bool has_adapter = !contents.layers.empty() && contents.layers.back().module == module;
      if (has_adapter || !saved_module(parameter.name, options.modules_to_save).empty())
        throw ConfigError(fmt::format(
            "{}: \"trainable_token_indices\" names rows of {}, which is also trained in another way: merge the "
            "adapter into its base with PEFT (merge_and_unload)",
            options.where, module));
      contents.token_rows[parameter.name] = *rows;
    }
    if (const StoredTensor* const saved = saved_parameter(tensors, *base.entry, parameter))
      contents.replaced[parameter.name] = *saved;
    else
      continue;
    const std::string trained = saved_module(parameter.name, options.modules_to_save);
    if (trained.empty()) {
      contents.untrained.push_back(parameter.name);
      continue;
    }
    if (parameter.names.size() > 1)
      throw ConfigError(fmt::format(
          "{}: \"modules_to_save\" names {}, which is tied to \"{}\", and PEFT changes only one of the two: merge the "
          "adapter into its base with PEFT (merge_and_unload)",
          options.where, trained, parameter.names[1]));
    if (std::ranges::find(contents.trained, trained) == contents.trained.end()) contents.trained.push_back(trained);
  }
  for (const auto& [key, ids] : options.token_rows)
    if (!used.contains(key))
      throw ConfigError(fmt::format("{}: \"trainable_token_indices\" has ids{}, but {} has no rows for them",
                                    options.where, key.empty() ? key : fmt::format(" of \"{}\"", key),
                                    tensors.path().string()));
  tensors.check_all_used(*base.entry);
  if (contents.layers.empty())
    throw ConfigError(
        fmt::format("{} holds no adapter of a linear layer of {}", tensors.path().string(), base.entry->architecture));
  return contents;
}

/// Whether a tensor equals the base's, or begins with it: PEFT saves tables and heads in full if they got additional
/// rows. The rows of `replaced` may differ.
bool has_same_rows_as(const StoredTensor& own, const StoredTensor& base, const std::string& name,
                      const StoredRows* replaced) {
  const bool has_rows = own.shape.size() == base.shape.size() && !own.shape.empty() && own.shape[0] >= base.shape[0];
  if (!has_rows || !std::equal(own.shape.begin() + 1, own.shape.end(), base.shape.begin() + 1)) return false;
  const at::Tensor values = read_full(name, own, at::kFloat).narrow(0, 0, base.shape[0]);
  const at::Tensor base_values = read_full(name, base, at::kFloat);
  if (replaced)
    for (const int64_t id : replaced->ids)
      if (id < base.shape[0]) values[id].copy_(base_values[id]);
  return values.equal(base_values);
}

/// Sets the base's numbers of labels and ids to those of the folder's heads and tables.
void fit_rows(ModelConfig& base, PeftTensors& tensors) {
  const bool has_labels = find_task(base.entry->task)->label_count == "num_labels";
  const int64_t ids = vocabulary_rows(base);
  const ConfigIntegers integers = config_integers(*base.config);
  const auto labels = integers.find("num_labels");
  for (const ModelParameter& parameter : model_parameters(base)) {
    const StoredTensor* const saved = saved_parameter(tensors, *base.entry, parameter);
    if (!saved || saved->shape.empty() || saved->shape.size() != parameter.global_shape.size()) continue;
    const int64_t own = saved->shape[0], base_rows = parameter.global_shape[0];
    if (base_rows == ids && own > ids) {
      base = with_vocabulary_rows(base, own);
    } else if (has_labels && labels != integers.end() && base_rows == labels->second && own > 0 && own != base_rows) {
      base.config = base.config->clone();
      set_config_integer(*base.config, "num_labels", own);
    }
  }
}

/// The entry of the base's family that adapter_config.json selects.
const Entry& get_entry(const ModelConfig& base, const PeftOptions& options) {
  if (options.task.empty() || base.entry->task == options.task) return *base.entry;
  for (const Entry& entry : entries())
    if (entry.family == base.entry->family && entry.task == options.task) return entry;
  throw ConfigError(fmt::format("{}: \"task_type\" is \"{}\", and this program has no such model in the family {}",
                                options.where, to_peft_task(options.task), base.entry->family));
}

fs::path with_weights(const fs::path& base) {
  const fs::path checkpoint = find_checkpoint(base);
  return checkpoint.empty() ? base : checkpoint;
}

/// Adapts the model, with the layer names of adapter_config.json if they match exactly these layers.
void adapt_as_stored(ModelConfig& model, const PeftContents& contents, const PeftOptions& options) {
  LoraOptions lora = options.lora;
  lora.trained = contents.trained;
  const auto has_layers = [&] {
    return std::ranges::is_permutation(model.lora->layers, contents.layers, {}, &AdaptedLayer::name,
                                       &PeftContents::Layer::name);
  };
  if (!lora.layers.empty()) {
    ModelConfig by_name = model;
    try {
      adapt(by_name, lora);
      std::swap(model, by_name);
      if (has_layers()) return;
      std::swap(model, by_name);
    } catch (const ConfigError&) {
      // The names are PEFT's own kind; use the layers' names below.
    }
  }
  lora.layers.clear();
  for (const PeftContents::Layer& layer : contents.layers) lora.layers.push_back(layer.name);
  adapt(model, lora);
  if (!has_layers())
    throw ConfigError(fmt::format("{}: \"target_modules\" names other layers than the linear layers of {}",
                                  options.where, model.entry->architecture));
}

}  // namespace

bool is_peft_folder(const fs::path& folder) {
  return is_there(folder / kPeftConfig) && !is_there(folder / "checkpoint.json");
}

fs::path peft_base(const fs::path& folder, const fs::path& given) {
  if (!given.empty()) return given;
  const PeftOptions options = read_peft_options(folder);
  // PEFT resolves a relative path against the working directory.
  for (const fs::path& base : {fs::path(options.base), folder / options.base}) {
    std::error_code error;
    if (!options.base.empty() && fs::is_directory(base, error)) return base;
  }
  throw ConfigError(
      fmt::format("{}: \"base_model_name_or_path\" is \"{}\", which is not a folder on this machine: download that "
                  "model and name its "
                  "folder with --set model.base=FOLDER, or --base FOLDER of `modrun export` and `import`",
                  options.where, options.base));
}

ModelConfig read_peft_config(const fs::path& folder, const Entry* as, const fs::path& given) {
  const PeftOptions options = read_peft_options(folder);
  const fs::path base = with_weights(peft_base(folder, given));
  if (is_peft_folder(base))
    throw ConfigError(
        fmt::format("{}: the base is {}, which is itself a folder of adapters: merge them with `modrun export`",
                    options.where, base.string()));
  ModelConfig model = read_config(base);
  if (const Entry* const entry = as ? as : &get_entry(model, options); entry != model.entry)
    model = read_config(base, entry);
  if (model.lora)
    throw ConfigError(fmt::format("{}: the base, {}, has adapters itself: merge them with `modrun export`",
                                  options.where, base.string()));
  PeftTensors tensors(folder);
  fit_rows(model, tensors);
  PeftOptions fitted = options;
  const PeftContents contents = get_contents(tensors, model, options);
  std::vector<std::pair<std::string, int64_t>> ranks;
  for (const PeftContents::Layer& layer : contents.layers) ranks.emplace_back(layer.module, layer.a.shape[0]);
  set_rank_and_alpha(fitted, ranks);
  adapt_as_stored(model, contents, fitted);
  if (const std::string error = peft_names_error(*model.lora); !error.empty())
    throw ConfigError(
        fmt::format("{}: {}: merge the adapter into its base with PEFT (merge_and_unload)", options.where, error));
  model.base = base;
  for (const auto& [name, rows] : contents.token_rows) model.token_rows[name] = rows.ids;
  return model;
}

StoredTensors open_peft(const fs::path& folder, const ModelConfig& model) {
  PeftTensors tensors(folder);
  const PeftContents contents = get_contents(tensors, without_adapters(model), read_peft_options(folder));
  ModelConfig base = without_adapters(model);
  base.base.clear();
  if (vocabulary_rows(base) > 0) base = with_vocabulary_rows(base, vocabulary_rows(read_config(model.base)));
  StoredTensors stored = open_parameters(model.base, base, Head::may_be_new);
  for (const std::string& name : contents.untrained) {
    const auto base_tensor = stored.find(name);
    const StoredTensor& own = contents.replaced.at(name);
    const auto rows = contents.token_rows.find(name);
    const StoredRows* const replaced = rows == contents.token_rows.end() ? nullptr : &rows->second;
    if (base_tensor == stored.end() || !has_same_rows_as(own, base_tensor->second, name, replaced))
      throw std::runtime_error(fmt::format(
          "{} holds \"{}\", which differs from that of {} and which \"modules_to_save\" of {} does not name: merge "
          "the adapter into its base with PEFT (merge_and_unload)",
          tensors.path().string(), name, model.base.string(), kPeftConfig));
  }
  for (const auto& [name, tensor] : contents.replaced) stored[name] = tensor;
  for (const auto& [name, rows] : contents.token_rows)
    if (const auto found = stored.find(name); found != stored.end())
      found->second.rows = std::make_shared<const StoredRows>(rows);
  for (const PeftContents::Layer& layer : contents.layers) {
    const AdaptedLayer names{.name = layer.name};
    stored[names.a()] = layer.a, stored[names.b()] = layer.b;
  }
  for (const ModelParameter& parameter : model_parameters(model)) {
    const auto found = stored.find(parameter.name);
    if (found == stored.end())
      throw std::runtime_error(fmt::format("neither {} nor {} holds \"{}\" of {}", tensors.path().string(),
                                           model.base.string(), parameter.name, model.entry->architecture));
    if (found->second.shape != parameter.global_shape)
      throw std::runtime_error(fmt::format("{}: \"{}\" is {}, and {} has {}", tensors.path().string(), parameter.name,
                                           shape_text(found->second.shape), model.entry->architecture,
                                           shape_text(parameter.global_shape)));
    if (parameter.tensor.is_floating_point()) reject_integers(parameter.name, found->second);
  }
  return stored;
}

}  // namespace modular
