// safetensors files, alone and as examples.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/model/tasks.h"
#include "tests/data/temporary_folder.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/safetensors_bytes.h"

namespace modular::fuzz {
namespace {

using nlohmann::json;

/// A rank's file in a run's checkpoint, with digests.
const std::string& file_with_digests() {
  static const std::string bytes = [] {
    const TemporaryFolder folder;
    const at::Tensor values = at::arange(600, at::kFloat);
    auto writer = SafetensorsWriter::create(folder.path() / "file",
                                            {{"weight", at::kFloat, {20, 30}}, {"half", at::kHalf, {600}}},
                                            {{"boxes", "{}"}}, /*with_digests=*/true);
    writer.write("weight", values.view({20, 30}));
    writer.write("half", values);
    writer.close();
    return get_files(folder.path()).at("file");
  }();
  return bytes;
}

Input make_safetensors(Random& random) {
  static constexpr std::array<std::string_view, 4> kNames = {"weight", "__metadata__", "", "digests"};
  if (random.one_in(3))
    return {{{"file.safetensors", mutated_safetensors_file(file_with_digests(), kNames, random)}}, {}};
  const std::vector<StoredBytes> tensors = {stored_bytes("weight", at::ones({3, 4})),
                                            stored_bytes("ids", at::arange(5)), stored_bytes("scalar", at::ones({})),
                                            stored_bytes("none", at::ones({0, 7}))};
  return {{{"file.safetensors", mutated_safetensors(tensors, {{"format", "pt"}}, kNames, random)}}, {}};
}

/// Reads every byte, to detect bytes outside the file.
void read_bytes(const at::Tensor& tensor) {
  const auto* const bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  volatile unsigned sum = 0;
  for (size_t at = 0; at < tensor.nbytes(); ++at) sum = sum + bytes[at];
}

void read_safetensors(const Input&) {
  const SafetensorsFile file("file.safetensors");
  file.check_size();
  for (const auto& [name, header] : file.tensors()) {
    const at::Tensor tensor = file.tensor(name);
    read_bytes(tensor);
    file.verify(name, 0, tensor.nbytes());
  }
}

/// A model for each task, with items of features.
const std::vector<ModelConfig>& models() {
  static const std::vector<ModelConfig> all = [] {
    std::vector<ModelConfig> made;
    for (const Entry& entry : entries()) {
      json config = {{"architectures", {entry.architecture}}, {"model_type", entry.model_type}};
      if (entry.task == "next-item") config["feature_cardinalities"] = {5, 7}, config["feature_numbers"] = 2;
      made.push_back(parse_config(config.dump(), "a default config"));
    }
    return made;
  }();
  return all;
}

std::vector<StoredBytes> examples_for(const ModelConfig& model, Random& random) {
  constexpr int64_t rows = 3, seq = 4, targets = 2;
  const Task& task = *find_task(model.entry->task);
  std::vector<StoredBytes> tensors;
  const auto ids = [](std::vector<int64_t> shape) { return at::ones(shape, at::kLong); };
  if (task.reads != Task::Reads::images) tensors.push_back(stored_bytes("input_ids", ids({rows, seq})));
  if (task.reads != Task::Reads::tokens) tensors.push_back(stored_bytes("pixel_values", at::zeros({rows, 3, 4, 4})));
  if (random.one_in(2)) tensors.push_back(stored_bytes("attention_mask", ids({rows, seq})));
  if (task.labels == Task::Labels::each_row) tensors.push_back(stored_bytes("labels", ids({rows})));
  if (task.labels == Task::Labels::each_token) tensors.push_back(stored_bytes("labels", ids({rows, seq})));
  if (task.labels == Task::Labels::each_target_token) {
    tensors.push_back(stored_bytes("labels", ids({rows, targets})));
    tensors.push_back(stored_bytes("decoder_input_ids", ids({rows, targets})));
  }
  if (task.name == "next-item") {
    tensors.push_back(stored_bytes("feature_ids", ids({rows, seq, 2})));
    tensors.push_back(stored_bytes("feature_values", at::ones({rows, seq, 2})));
  }
  return tensors;
}

Input make_examples(Random& random) {
  static constexpr std::array<std::string_view, 12> kNames = {"input_ids",
                                                              "labels",
                                                              "attention_mask",
                                                              "position_ids",
                                                              "token_type_ids",
                                                              "pixel_values",
                                                              "feature_ids",
                                                              "feature_values",
                                                              "decoder_input_ids",
                                                              "decoder_attention_mask",
                                                              "",
                                                              "another"};
  const size_t chosen = random.below(models().size());
  const std::vector<StoredBytes> tensors = examples_for(models()[chosen], random);
  Input input;
  input.files["a.safetensors"] = mutated_safetensors(tensors, {}, kNames, random);
  if (random.one_in(3)) input.files["b.safetensors"] = safetensors_file(tensors);
  input.overrides = {std::to_string(chosen)};
  return input;
}

void read_rows(const Examples& examples) {
  if (examples.size() == 0) return;
  const std::vector<int64_t> rows = {0, examples.size() / 2, examples.size() - 1};
  examples.read(rows);
}

/// Reads examples like `modrun train` and `modrun forward`.
void read_all_examples(const Input& input) {
  const ModelConfig& model = models().at(std::stoul(input.overrides.at(0)));
  std::vector<std::filesystem::path> paths;
  for (const auto& [name, text] : input.files) paths.emplace_back(name);
  const Examples examples(paths, model);
  examples.check_ids();
  read_rows(examples);
  const Batch batch = read_examples(SafetensorsFile(paths.front()), model);
  const int64_t rows = batch.leading().size(0);
  try {
    take_rows(batch, model, rows / 2, rows - rows / 2);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(paths.front().string() + ": " + error.what());  // forward.cc adds the location
  }
}

}  // namespace

void use_one_thread() { at::set_num_threads(1); }

std::vector<Reader> tensor_readers() {
  return {{"safetensors", "safetensors files", make_safetensors, read_safetensors, {"file.safetensors"}},
          {"examples", "files of examples", make_examples, read_all_examples, {".safetensors"}}};
}

}  // namespace modular::fuzz
