// Folders of several files: Hugging Face folders and checkpoints.
#include <array>
#include <stdexcept>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "tests/data/temporary_folder.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/safetensors_bytes.h"

namespace modular::fuzz {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 18> kIndexKeys = {"weight_map",
                                                         "metadata",
                                                         "model-1.safetensors",
                                                         "model.safetensors",
                                                         "lm_head.weight",
                                                         "model.norm.weight",
                                                         "format",
                                                         "step",
                                                         "state",
                                                         "mesh",
                                                         "tensors",
                                                         "boxes",
                                                         "shape",
                                                         "offset",
                                                         "file",
                                                         "key",
                                                         "..",
                                                         "rank-00000.safetensors"};

const ModelConfig& tiny_model() {
  static const ModelConfig model = parse_config(
      R"({"model_type": "llama", "vocab_size": 6, "hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1,
          "num_attention_heads": 2, "max_position_embeddings": 8, "num_nextn_predict_layers": 1})",
      "config.json");
  return model;
}

/// The slices of a single rank: all parameters, one of them in two slices.
std::vector<TensorSlice> full_slices() {
  std::vector<TensorSlice> slices;
  for (const ModelParameter& parameter : model_parameters(tiny_model())) {
    const std::vector<int64_t>& shape = parameter.global_shape;
    slices.push_back({parameter.name, shape, std::vector<int64_t>(shape.size(), 0), at::ones(shape)});
    if (parameter.name != "model.embed_tokens.weight") continue;
    TensorSlice second = slices.back();
    slices.back().local = slices.back().local.narrow(0, 0, 2).clone();
    second.local = second.local.narrow(0, 2, shape[0] - 2).clone();
    second.offset[0] = 2;
    slices.push_back(std::move(second));
  }
  return slices;
}

std::map<std::string, std::string> make_pretrained_files() {
  std::array<std::vector<StoredBytes>, 2> files;
  json map = json::object();
  for (const ModelParameter& parameter : model_parameters(tiny_model())) {
    const size_t number = parameter.name.find("mlp") == std::string::npos ? 0 : 1;
    files.at(number).push_back(stored_bytes(parameter.name, at::ones(parameter.global_shape)));
    map[parameter.name] = "model-" + std::to_string(number) + ".safetensors";
  }
  return {{"config.json", format_config(tiny_model(), "float32")},
          {"model-0.safetensors", safetensors_file(files[0])},
          {"model-1.safetensors", safetensors_file(files[1])},
          {"model.safetensors.index.json", json{{"weight_map", map}}.dump()}};
}

/// Damages one of the files, as JSON if its name says so.
void mutate_file(std::map<std::string, std::string>& files, const std::string& name, Random& random) {
  std::string& text = files.at(name);
  if (name.ends_with(".json"))
    text = mutated_json_text(json::parse(text), kIndexKeys, random);
  else if (name.ends_with(".safetensors"))
    text = mutated_safetensors_file(text, kIndexKeys, random);
  else
    text = mutated_text(std::move(text), kIndexKeys, random);
  if (random.one_in(100)) files.erase(name);
}

Input make_folder(Random& random) {
  static const std::map<std::string, std::string> valid = make_pretrained_files();
  Input input{valid, {}};
  const bool in_index = random.one_in(2);
  mutate_file(input.files,
              in_index ? "model.safetensors.index.json"
                       : std::next(valid.begin(), static_cast<std::ptrdiff_t>(random.below(valid.size())))->first,
              random);
  return input;
}

void reject_if(const std::string& error) {
  if (!error.empty()) throw std::runtime_error(error);
}

/// Reads model.checkpoint like `modrun train`.
void read_folder(const Input&) {
  const ModelConfig model = read_pretrained_config(".");
  reject_if(pretrained_error(".", model, Head::may_be_new));
  weights_note(".", model, Head::may_be_new);
  reject_if(pretrained_error(".", model));
  std::vector<TensorSlice> slices = full_slices();
  if (config_difference(model, tiny_model()).empty()) load_parameters(".", model, slices);
}

constexpr std::array<std::string_view, 12> kAdapterKeys = {"peft_type",
                                                           "LORA",
                                                           "r",
                                                           "lora_alpha",
                                                           "alpha_pattern",
                                                           "use_rslora",
                                                           "target_modules",
                                                           "modules_to_save",
                                                           "lm_head.weight",
                                                           "all-linear",
                                                           "task_type",
                                                           "base_model.model.lm_head.weight"};

std::map<std::string, std::string> make_adapter_files() {
  std::map<std::string, std::string> files = make_pretrained_files();
  const std::string layer = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  files["adapter/adapter_model.safetensors"] = safetensors_file(
      {stored_bytes(layer + "A.weight", at::ones({2, 4})), stored_bytes(layer + "B.weight", at::ones({4, 2})),
       stored_bytes("base_model.model.lm_head.weight", at::ones({6, 4}))});
  files["adapter/adapter_config.json"] = json{
      {"peft_type", "LORA"},
      {"base_model_name_or_path", "."},
      {"task_type", "CAUSAL_LM"},
      {"r", 2},
      {"lora_alpha", 4},
      {"lora_dropout", 0.1},
      {"alpha_pattern", {{"q_proj", 3}}},
      {"target_modules", {"q_proj"}},
      {"modules_to_save", {"lm_head"}}}.dump();
  return files;
}

Input make_adapter(Random& random) {
  static const std::map<std::string, std::string> valid = make_adapter_files();
  Input input{valid, {}};
  std::string& config = input.files.at("adapter/adapter_config.json");
  std::string& weights = input.files.at("adapter/adapter_model.safetensors");
  if (random.one_in(2))
    config = mutated_json_text(json::parse(config), kAdapterKeys, random);
  else
    weights = mutated_safetensors_file(weights, kAdapterKeys, random);
  return input;
}

/// Reads a PEFT model.checkpoint like `modrun train`.
void read_adapter(const Input&) {
  const ModelConfig model = read_pretrained_config("adapter");
  reject_if(pretrained_error("adapter", model, Head::may_be_new));
}

const Mesh& single_rank() {
  static const Mesh mesh(Environment{}, MeshShape{});
  return mesh;
}

std::map<std::string, std::string> make_checkpoint_files() {
  const TemporaryFolder folder;
  Mesh mesh(Environment{}, MeshShape{});
  for (const int64_t step : {10, 20})
    save_checkpoint(folder.path(), tiny_model(), {step, {{"data", "7"}}}, full_slices(), mesh, /*keep_last=*/0);
  return get_files(folder.path());
}

Input make_checkpoint(Random& random) {
  static const std::map<std::string, std::string> valid = make_checkpoint_files();
  Input input{valid, {}};
  const std::string newest = "step-00000020/";
  const std::array<std::string, 6> names = {newest + "checkpoint.json", newest + "checkpoint.json",
                                            newest + "checkpoint.json", newest + "rank-00000.safetensors",
                                            newest + "config.json",     "latest"};
  mutate_file(input.files, random.pick(names), random);
  return input;
}

/// Reads the folder like `modrun train --resume`.
void read_checkpoint(const Input&) {
  const std::filesystem::path checkpoint = find_checkpoint(".");
  if (checkpoint.empty()) throw std::runtime_error("./latest: no checkpoint");
  reject_if(checkpoint_error(checkpoint, tiny_model()));
  std::vector<TensorSlice> slices = full_slices();
  load_checkpoint(checkpoint, tiny_model(), slices, single_rank());
  load_parameters(".", tiny_model(), slices);
}

}  // namespace

std::vector<Reader> folder_readers() {
  return {{"folder",
           "Hugging Face folders: index, tensors and config together",
           make_folder,
           read_folder,
           {"config.json", "model-", "index.json", ". ", ".:", "./", "\".\""}},
          {"adapter",
           "PEFT folders: config and adapters together",
           make_adapter,
           read_adapter,
           {"adapter_config.json", "adapter_model.safetensors", "config.json", "lora.layers"}},
          {"checkpoint", "folders of checkpoints", make_checkpoint, read_checkpoint, {"step-", "latest"}}};
}

}  // namespace modular::fuzz
