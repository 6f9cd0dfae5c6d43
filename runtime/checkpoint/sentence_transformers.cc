#include "runtime/checkpoint/sentence_transformers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModules = "modules.json";
constexpr std::string_view kPackage = "sentence_transformers.";

/// Boolean keys that all releases read, in their order of concatenation.
constexpr std::array<std::pair<const char*, std::string_view>, 6> kPoolingKeys = {{
    {"pooling_mode_cls_token", "cls"},
    {"pooling_mode_max_tokens", "max"},
    {"pooling_mode_mean_tokens", "mean"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {"pooling_mode_weightedmean_tokens", "weightedmean"},
    {"pooling_mode_lasttoken", "lasttoken"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kActivations = {{
    {"torch.nn.modules.linear.Identity", "identity"},
    {"torch.nn.modules.activation.Tanh", "tanh"},
    {"torch.nn.modules.activation.ReLU", "relu"},
    {"torch.nn.modules.activation.GELU", "gelu"},
    {"torch.nn.modules.activation.SiLU", "silu"},
    {"torch.nn.modules.activation.Sigmoid", "sigmoid"},
}};

json read_module_file(const fs::path& path, bool is_list = false) {
  const std::string text = read_config_text(path);
  const json value = parse_json(text);
  if (value.is_discarded()) throw ConfigError(fmt::format("{} is not JSON: {}", path.string(), json_problem(text)));
  if (is_list ? !value.is_array() : !value.is_object())
    throw ConfigError(fmt::format("{} is not a JSON {}", path.string(), is_list ? "list" : "object"));
  return value;
}

/// An element of modules.json.
struct SentenceModule {
  std::string type;  // class name, without the package if that is Sentence Transformers
  std::string path;  // relative to the folder

  json config(const fs::path& folder) const {
    const fs::path file = folder / path / "config.json";
    return is_there(file) ? read_module_file(file) : json::object();
  }
};

std::vector<SentenceModule> read_modules(const fs::path& folder) {
  const fs::path file = folder / kModules;
  std::vector<SentenceModule> modules;
  for (const json& row : read_module_file(file, /*is_list=*/true)) {
    const auto text = [&](const char* key) {
      if (!row.is_object() || !row.contains(key) || !row[key].is_string())
        throw ConfigError(fmt::format("{} has {}, in which \"{}\" is not a string", file.string(), shown(row), key));
      return row[key].get<std::string>();
    };
    SentenceModule module{text("type"), text("path")};
    const fs::path subfolder = fs::path(module.path).lexically_normal();
    if (subfolder.is_absolute() || (!subfolder.empty() && *subfolder.begin() == ".."))
      throw ConfigError(fmt::format("{} names the path {} for a module: write a path within the folder", file.string(),
                                    shown(row["path"])));
    try {
      check_no_links({folder, subfolder});
    } catch (const std::runtime_error& error) {
      throw ConfigError(error.what());
    }
    if (module.type.starts_with(kPackage)) module.type = module.type.substr(module.type.rfind('.') + 1);
    modules.push_back(std::move(module));
  }
  return modules;
}

/// Throws if `key` is set, but not to the only supported value.
void need(const json& config, const char* key, const json& supported, const fs::path& file, std::string_view why) {
  if (config.contains(key) && config[key] != supported)
    throw ConfigError(fmt::format("{}: \"{}\" is {}, {}, which is not supported: write {}", file.string(), key,
                                  shown(config[key]), why, shown(supported)));
}

std::string read_pooling(const json& config, const fs::path& file) {
  std::vector<std::string> modes;
  if (const auto named = config.find("pooling_mode"); named != config.end()) {
    for (const json& mode : named->is_array() ? *named : json::array({*named})) {
      if (!mode.is_string() || !detail::find_named(detail::kPoolings, mode.get_ref<const std::string&>()))
        throw ConfigError(fmt::format("{}: \"pooling_mode\" is {}: write one of {}, or a list of them", file.string(),
                                      shown(*named), detail::get_names(detail::kPoolings)));
      modes.push_back(mode);
    }
  } else {
    for (const auto& [key, mode] : kPoolingKeys) {
      if (config.contains(key) && !config[key].is_boolean())
        throw ConfigError(fmt::format("{}: \"{}\" is {}: write true or false", file.string(), key, shown(config[key])));
      if (config.value(key, false)) modes.emplace_back(mode);
    }
    for (const auto& [key, value] : config.items())
      if (key.starts_with("pooling_mode_") &&
          std::ranges::none_of(kPoolingKeys, [&](const auto& known) { return known.first == key; }))
        throw ConfigError(fmt::format("{}: \"{}\" is an unknown pooling mode", file.string(), key));
  }
  return modes.empty() ? "mean" : fmt::format("{}", fmt::join(modes, "+"));
}

bool read_include_prompt(const json& config, const fs::path& file) {
  const json value = config.value("include_prompt", json(true));
  if (!value.is_boolean())
    throw ConfigError(fmt::format("{}: \"include_prompt\" is {}: write true or false", file.string(), shown(value)));
  return value;
}

std::string read_dropout(const json& config, const fs::path& file) {
  const json p = config.value("dropout", json(0.2));  // the library's default
  if (!p.is_number() || p < 0.0 || p >= 1.0)
    throw ConfigError(fmt::format("{}: \"dropout\" is {}: write a probability of at least 0 and less than 1",
                                  file.string(), shown(p)));
  return fmt::format("dropout {}", p.get<double>());
}

/// Name of the tensor that a Normalize reads and writes.
std::string read_normalized(const json& config, const fs::path& file) {
  const json name = config.value("module_input_name", json("sentence_embedding"));
  if (name != "sentence_embedding" && name != "token_embeddings")
    throw ConfigError(
        fmt::format("{}: \"module_input_name\" is {}, the input of the normalization, which is not supported: write "
                    "\"sentence_embedding\" or "
                    "\"token_embeddings\"",
                    file.string(), shown(name)));
  const json output = config.value("module_output_name", json());
  if (!output.is_null() && output != name)
    throw ConfigError(fmt::format(
        "{}: \"module_output_name\" is {}, the output of the normalization, which is not supported: write {}",
        file.string(), shown(output), shown(name)));
  return name;
}

std::string read_dense(const json& config, const fs::path& file) {
  need(config, "module_input_name", "sentence_embedding", file, "the layer's input");
  need(config, "module_output_name", "sentence_embedding", file, "the layer's output");
  need(config, "use_residual", false, file, "which adds the layer's input");
  const json size = config.value("out_features", json()), bias = config.value("bias", json(true));
  if (!size.is_number_integer() || size < 1)
    throw ConfigError(
        fmt::format("{}: \"out_features\" is {}: write the size of the layer's output", file.string(), shown(size)));
  if (!bias.is_boolean())
    throw ConfigError(fmt::format("{}: \"bias\" is {}: write true or false", file.string(), shown(bias)));
  const json name = config.value("activation_function", json(kActivations[1].first));
  const std::string type = name.is_string() ? name.get<std::string>() : std::string();
  const auto* const found = std::ranges::find(kActivations, type, [](const auto& row) { return row.first; });
  if (found == kActivations.end()) {
    std::vector<std::string_view> known;
    for (const auto& [of_torch, ours] : kActivations) known.push_back(of_torch);
    throw ConfigError(fmt::format("{}: \"activation_function\" is {}, which is not supported: write one of {}",
                                  file.string(), shown(name), fmt::join(known, ", ")));
  }
  return fmt::format("dense {} {}{}", size.get<int64_t>(), found->second, bias.get<bool>() ? "" : " no-bias");
}

std::string parameter_prefix(size_t layer) { return fmt::format("{}.{}.", kEmbeddingLayers, layer); }

bool is_one_of(const SentenceModule& module, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, module.type) != types.end();
}

/// The modules of modules.json that compute something; each layer is an element of
/// EmbeddingHeadConfig::embedding_layers.
struct ReadModules {
  const SentenceModule* pooling = nullptr;
  std::vector<std::pair<const SentenceModule*, std::string>> layers;
};

/// Throws for an unsupported module or order.
ReadModules read_layers(const std::vector<SentenceModule>& modules, const fs::path& folder) {
  const std::string where = (folder / kModules).string();
  for (const SentenceModule& module : modules)
    if (!is_one_of(module, {"Transformer", "Pooling", "Dense", "Normalize", "Dropout"}))
      throw ConfigError(fmt::format(
          "{} has the module \"{}\"{}, which is not supported: Transformer, Pooling, Dense, Normalize and Dropout are",
          where, module.type, module.path.empty() ? "" : fmt::format(" in {}", module.path)));
  const auto pooling = std::ranges::find(modules, "Pooling", &SentenceModule::type);
  const bool has_both = pooling != modules.end() && pooling != modules.begin() && modules[0].type == "Transformer";
  if (!has_both ||
      !std::all_of(modules.begin() + 1, pooling, [](const auto& each) { return is_one_of(each, {"Normalize"}); }) ||
      std::any_of(pooling + 1, modules.end(),
                  [](const auto& each) { return is_one_of(each, {"Transformer", "Pooling"}); })) {
    std::vector<std::string_view> types;
    for (const SentenceModule& module : modules) types.push_back(module.type);
    throw ConfigError(
        fmt::format("{} lists {}: a Transformer, an optional Normalize, a Pooling, and then any number of Dense, "
                    "Normalize and "
                    "Dropout are supported",
                    where, types.empty() ? "no modules" : fmt::format("{}", fmt::join(types, ", "))));
  }
  ReadModules read{&*pooling, {}};
  for (auto module = modules.begin() + 1; module != modules.end(); ++module) {
    if (module == pooling) continue;
    const fs::path file = folder / module->path / "config.json";
    const json config = module->config(folder);
    if (module->type == "Dense") {
      read.layers.emplace_back(&*module, read_dense(config, file));
    } else if (module->type == "Dropout") {
      read.layers.emplace_back(&*module, read_dropout(config, file));
    } else {
      // The library skips a Normalize of a tensor that does not exist yet, and nothing after pooling reads tokens. The
      // flag for unit length stays.
      const bool of_tokens = read_normalized(config, file) == "token_embeddings";
      if (of_tokens != (module < pooling)) continue;
      if (!of_tokens)
        read.layers.emplace_back(&*module, "normalize");
      else if (read.layers.empty())
        read.layers.emplace_back(&*module, "normalize-tokens");
    }
  }
  return read;
}

/// A module to write.
struct WrittenModule {
  const char* type;
  json config;
};

bool embeds_texts(const ModelConfig& model) {
  const Task* const task = find_task(model.entry->task);
  return task && task->texts != 1;
}

EmbeddingHeadConfig get_head(const json& fields) {
  return {fields.at("pooling"), fields.at("embedding_layers"), fields.at("include_prompt")};
}

json pooling_config(const EmbeddingHeadConfig& head, int64_t hidden_size) {
  json older = {{"word_embedding_dimension", hidden_size}, {"include_prompt", head.include_prompt}};
  const std::vector<std::string_view> modes = head.poolings();
  std::vector<std::string_view> in_order;
  for (const auto& [key, mode] : kPoolingKeys) {
    const bool is_used = std::ranges::find(modes, mode) != modes.end();
    if (is_used) in_order.push_back(mode);
    older[key] = is_used;
  }
  if (in_order == modes) return older;
  return {{"embedding_dimension", hidden_size}, {"pooling_mode", modes}, {"include_prompt", head.include_prompt}};
}

std::vector<WrittenModule> written_modules(const json& fields) {
  const EmbeddingHeadConfig head = get_head(fields);
  const char* const key = fields.contains("hidden_size") ? "hidden_size" : fields.contains("dim") ? "dim" : "d_model";
  const int64_t hidden_size = fields.at(key);
  const std::vector<EmbeddingLayer> layers = head.layers();
  std::vector<WrittenModule> modules = {{"Transformer", json()}};
  if (!layers.empty() && layers[0].kind == EmbeddingLayer::Kind::normalize_tokens)
    modules.push_back(
        {"Normalize", {{"module_input_name", "token_embeddings"}, {"module_output_name", "token_embeddings"}}});
  modules.push_back({"Pooling", pooling_config(head, hidden_size)});
  auto size = static_cast<int64_t>(head.poolings().size()) * hidden_size;
  for (const EmbeddingLayer& layer : layers) {
    if (layer.kind == EmbeddingLayer::Kind::normalize) modules.push_back({"Normalize", json()});
    if (layer.kind == EmbeddingLayer::Kind::dropout) modules.push_back({"Dropout", {{"dropout", layer.dropout}}});
    if (!layer.is_dense()) continue;
    const auto* const activation =
        std::ranges::find_if(kActivations, [&](const auto& row) { return row.second == layer.activation; });
    modules.push_back({"Dense",
                       {{"in_features", std::exchange(size, layer.features)},
                        {"out_features", layer.features},
                        {"bias", layer.has_bias},
                        {"activation_function", activation->first}}});
  }
  return modules;
}

std::string path_to(size_t number, std::string_view type) {
  return number == 0 ? std::string() : fmt::format("{}_{}", number, type);
}

}  // namespace

bool has_sentence_modules(const fs::path& folder) {
  if (!is_there(folder / kModules)) return false;
  return std::ranges::any_of(read_modules(folder),
                             [](const SentenceModule& module) { return module.type == "Pooling"; });
}

fs::path transformer_folder(const fs::path& folder) {
  if (!is_there(folder / kModules)) return folder;
  for (const SentenceModule& module : read_modules(folder))
    if (module.type == "Transformer" && !module.path.empty() && module.path != ".") return folder / module.path;
  return folder;
}

fs::path sentence_folder_around(const fs::path& folder) {
  const fs::path inner = fs::absolute(folder / "").lexically_normal().parent_path(), parent = inner.parent_path();
  if (inner.empty() || parent == inner || !is_there(parent / kModules)) return {};
  try {
    const fs::path named = transformer_folder(parent);
    if (named != parent && (named / "").lexically_normal() == inner / "") return parent;
  } catch (const ConfigError&) {
    // A file of that name that is not Sentence Transformers', in a folder that the user did not name.
  }
  return {};
}

std::optional<EmbeddingHeadConfig> read_embedding_head(const fs::path& folder) {
  if (!is_there(folder / kModules)) return {};
  const std::vector<SentenceModule> modules = read_modules(folder);
  const ReadModules read = read_layers(modules, folder);
  const fs::path file = folder / read.pooling->path / "config.json";
  const json config = read.pooling->config(folder);
  EmbeddingHeadConfig head;
  head.pooling = read_pooling(config, file);
  head.include_prompt = read_include_prompt(config, file);
  for (const auto& [module, layer] : read.layers) head.embedding_layers.push_back(layer);
  return head;
}

std::vector<DenseWeights> dense_weights(const fs::path& folder) {
  if (!is_there(folder / kModules)) return {};
  std::vector<DenseWeights> weights;
  const std::vector<SentenceModule> modules = read_modules(folder);
  const ReadModules read = read_layers(modules, folder);
  for (size_t layer = 0; layer < read.layers.size(); ++layer) {
    const SentenceModule& module = *read.layers[layer].first;
    if (module.type != "Dense") continue;
    const fs::path file = folder / module.path / "model.safetensors";
    if (!is_there(file))
      throw ConfigError(fmt::format(
          "{} does not exist{}: load the folder with Sentence Transformers and save it, which writes that file",
          file.string(),
          is_there(folder / module.path / "pytorch_model.bin") ? ", and pytorch_model.bin is not read" : ""));
    weights.push_back({parameter_prefix(layer), file});
  }
  return weights;
}

std::vector<DenseWeights> get_dense_weights(const ModelConfig& model, const fs::path& folder) {
  if (!embeds_texts(model)) return {};
  std::vector<DenseWeights> weights;
  const std::vector<EmbeddingLayer> layers = get_head(fields_as_json(*model.config)).layers();
  for (size_t layer = 0; layer < layers.size(); ++layer)
    if (layers[layer].is_dense())
      weights.push_back({parameter_prefix(layer), folder / path_to(layer + 2, "Dense") / "model.safetensors"});
  return weights;
}

void write_sentence_transformers(const ModelConfig& model, const fs::path& folder) {
  if (!embeds_texts(model)) return;
  json list = json::array();
  const std::vector<WrittenModule> modules = written_modules(fields_as_json(*model.config));
  for (size_t number = 0; number < modules.size(); ++number) {
    const auto& [type, config] = modules[number];
    const std::string path = path_to(number, type);
    list.push_back({{"idx", number},
                    {"name", std::to_string(number)},
                    {"path", path},
                    {"type", fmt::format("{}models.{}", kPackage, type)}});
    if (config.is_null()) continue;
    fs::create_directories(folder / path);
    write_file(folder / path / "config.json", config.dump(2) + "\n");
  }
  write_file(folder / kModules, list.dump(2) + "\n");
}

std::string without_embedding_head(std::string_view config_json) {
  json object = json::parse(config_json);
  EmbeddingHeadConfig().fields([&](const char* name, const auto&) { object.erase(name); });
  return object.dump(2) + "\n";
}

}  // namespace modular
