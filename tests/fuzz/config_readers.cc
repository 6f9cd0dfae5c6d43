// config.json, a run's TOML file and --set options.
#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/config/config.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

namespace modular::fuzz {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 36> kConfigKeys = {"model_type",
                                                          "architectures",
                                                          "rope_scaling",
                                                          "rope_parameters",
                                                          "rope_theta",
                                                          "rope_type",
                                                          "type",
                                                          "factor",
                                                          "partial_rotary_factor",
                                                          "rotary_pct",
                                                          "original_max_position_embeddings",
                                                          "short_factor",
                                                          "long_factor",
                                                          "low_freq_factor",
                                                          "high_freq_factor",
                                                          "beta_fast",
                                                          "full_attention",
                                                          "sliding_attention",
                                                          "layer_types",
                                                          "text_config",
                                                          "text_config_dict",
                                                          "vision_config",
                                                          "quantization_config",
                                                          "id2label",
                                                          "num_labels",
                                                          "pad_token_id",
                                                          "hidden_act",
                                                          "head_dim",
                                                          "num_key_value_heads",
                                                          "num_hidden_layers",
                                                          "hidden_size",
                                                          "vocab_size",
                                                          "n_embd",
                                                          "n_routed_experts",
                                                          "dtype",
                                                          "__float__"};

constexpr std::array kRotaryKinds = {"default", "linear", "dynamic", "yarn", "longrope", "llama3", "su"};

constexpr std::array<std::string_view, 20> kTomlWords = {"[model]",
                                                         "[model.config]",
                                                         "[train]",
                                                         "[[optim.groups]]",
                                                         "entry = 'llama'",
                                                         "= [",
                                                         "= {a = 1}",
                                                         "1979-05-27",
                                                         "07:32:00",
                                                         "0x7fffffffffffffff",
                                                         "'''",
                                                         "\"\"\"",
                                                         "nan",
                                                         "-inf",
                                                         "1_000",
                                                         "model.config.",
                                                         "[a.b.c]",
                                                         "checkpoint = '.'",
                                                         "match = ['model.layers']",
                                                         "= true"};

constexpr size_t kLongestSetting = 100'000;  // limit of a command line

/// A few layers, because models are built from accepted configs.
void make_small(json& config) {
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers"})
    if (config.contains(key)) config[key] = 2;
  if (config.contains("layer_types")) config["layer_types"] = {"full_attention", "sliding_attention"};
  for (const char* key : {"n_routed_experts", "num_experts"})
    if (config.contains(key) && config[key] > 16) config[key] = 16;
  for (auto& [key, value] : config.items())
    if (value.is_object()) make_small(value);
}

/// The config.json files of every entry's defaults.
const std::vector<json>& default_configs() {
  static const std::vector<json> configs = [] {
    std::vector<json> made;
    for (const Entry& entry : entries()) {
      ModelConfig model;
      model.entry = &entry;
      model.config = entry.make_config();
      model.config->finish();
      made.push_back(json::parse(format_config(model, "float32")));
      make_small(made.back());
    }
    return made;
  }();
  return configs;
}

/// RoPE parameters of any kind, at the old location or the new one.
void add_rope_parameters(json& config, Random& random) {
  json rope = {{"factor", 4.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 4.0},
               {"original_max_position_embeddings", 128},
               {"short_factor", json::array({1.0, 1.0})},
               {"long_factor", json::array({1.0, 2.0})},
               {"beta_fast", 32.0}};
  rope[random.one_in(3) ? "type" : "rope_type"] = random.pick(kRotaryKinds);
  if (random.one_in(2)) return void(config["rope_parameters"] = std::move(rope));
  config.erase("rope_parameters");
  config["rope_theta"] = 10000.0;
  config["rope_scaling"] = std::move(rope);
}

Input make_config_json(Random& random) {
  json config = random.pick(default_configs());
  if (random.one_in(3)) add_rope_parameters(config, random);
  return {{{"config.json", mutated_json_text(config, kConfigKeys, random)}}, {}};
}

void read_config_json(const Input&) {
  const ModelConfig model = read_config(".");
  unknown_keys_note(model);
  const std::string written = format_config(model, "bfloat16");
  try {
    config_difference(parse_config(written, "the file written back"), model);
  } catch (const std::exception& error) {
    throw std::logic_error(error.what());  // an accepted config must be exportable
  }
  model_parameters(model);
}

/// TOML files of every entry's defaults, which name all keys.
const std::vector<std::string>& default_runs() {
  static const std::vector<std::string> runs = [] {
    std::vector<std::string> made;
    for (const Entry& entry : entries()) {
      RunConfig config;
      config.model.entry = entry.architecture;
      config.network.entry = &entry;
      config.network.config = entry.make_config();
      config.network.config->finish();
      config.optim.groups = {{.match = {"model.layers"}, .lr_scale = 0.5}};
      made.push_back(format_toml(config));
    }
    return made;
  }();
  return runs;
}

Input make_run_config(Random& random) {
  Input input;
  input.files["run.toml"] = mutated_text(random.pick(default_runs()), kTomlWords, random);
  if (random.one_in(8)) input.files["config.json"] = random.pick(default_configs()).dump();
  return input;
}

/// A key of the file, with its sections.
std::string pick_key(const std::string& toml, Random& random) {
  std::vector<std::string> keys;
  std::string section;
  for (size_t begin = 0; begin < toml.size();) {
    const size_t end = std::min(toml.find('\n', begin), toml.size());
    const std::string line = toml.substr(begin, end - begin);
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2) + ".";
    if (const size_t equals = line.find(" = "); equals != std::string::npos)
      keys.push_back(section + line.substr(0, equals));
    begin = end + 1;
  }
  return random.pick(keys);
}

std::string any_value(const std::string& toml, Random& random) {
  switch (random.below(5)) {
    case 0:
      return std::string(random.pick(kTomlWords));
    case 1:
      return mutated_text("['a', \"b\", 1, {c = 2}]", kTomlWords, random);
    case 2:
      return mutated_json(json::array({1, "x"}), {}, random).dump();
    case 3: {
      const size_t at = toml.find("= ", random.below(toml.size()));
      return at == std::string::npos ? "" : toml.substr(at + 2, toml.find('\n', at) - at - 2);
    }
    default:
      return std::string(number_at_limit(random));
  }
}

Input make_settings(Random& random) {
  const std::string& toml = random.pick(default_runs());
  Input input;
  const size_t entry = toml.find("entry = ");
  input.files["run.toml"] = "[model]\n" + toml.substr(entry, toml.find('\n', entry) - entry) + "\n";
  for (size_t left = 1 + random.below(3); left > 0; --left) {
    std::string setting = pick_key(toml, random) + "=";
    setting += any_value(toml, random);
    if (random.one_in(8)) setting = mutated_text(std::move(setting), kTomlWords, random);
    input.overrides.push_back(setting.substr(0, setting.find('\0')).substr(0, kLongestSetting));
  }
  return input;
}

void use(RunConfig& config) {
  const MeshShape mesh = config.parallel.mesh_shape(/*world_size=*/1);
  config.batch_shape(mesh, /*dp_rank=*/0);
  config.schedule();
  config.mesh_options();
  config.parallel_options();
  format_table(config);
  std::ofstream("again.toml") << format_toml(config);
  try {
    read_run_config("again.toml", {});
  } catch (const std::exception& error) {
    throw std::logic_error(error.what());  // a run must resume from the config that it wrote
  }
}

void read_run(const Input& input) {
  RunConfig config = read_run_config("run.toml", input.overrides);
  use(config);
}

// Messages about several keys name them; keys of a model's config are in its config.json, too.
const std::vector<std::string_view> kRunLocations = {
    "run.toml", "--set", "config.json", "parallel.", "train.", "model.checkpoint", "data.paths"};

}  // namespace

std::vector<Reader> config_readers() {
  return {{"config", "config.json of a Hugging Face folder", make_config_json, read_config_json, {"config.json"}},
          {"run", "a run's TOML file", make_run_config, read_run, kRunLocations},
          {"settings", "--set options of the command line", make_settings, read_run, kRunLocations}};
}

}  // namespace modular::fuzz
