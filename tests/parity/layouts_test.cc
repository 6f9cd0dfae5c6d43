// The folders that layouts.py wrote, in published layouts: read, imported, trained for a step and exported.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/data/temporary_folder.h"
#include "tests/parity/cases.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// The model in folder/config.json, or of the class that layout.json names if the folder's class cannot be trained.
ModelConfig get_model(const fs::path& folder, const nlohmann::json& layout) {
  const auto found = std::ranges::find(entries(), layout.at("class").get<std::string>(), &Entry::architecture);
  if (found == entries().end()) throw std::runtime_error(layout.dump() + ": no family of this program has the class");
  return read_pretrained_config(folder, &*found);
}

void save_and_export(const fs::path& folder, const char* name, const ModelConfig& config, ParallelModel& model,
                     Mesh& mesh) {
  const fs::path run = folder / "runs" / name;
  save_checkpoint(run, config, {.step = 1, .values = {}}, get_slices(model), mesh, 1);
  export_pretrained(run, folder / name, {});
}

/// Exactly the tensors that transformers reports as unexpected are ignored and named.
void check_note(const fs::path& folder, const ModelConfig& config, Head head, const nlohmann::json& ignored) {
  const std::string note = weights_note(folder, config, head);
  EXPECT_EQ(note.find("ignored") != std::string::npos, !ignored.empty()) << note;
  if (ignored.size() <= 6)
    for (const auto& name : ignored) EXPECT_THAT(note, HasSubstr(name.get<std::string>()));
  else
    EXPECT_THAT(note, HasSubstr(fmt::format("and {} more", ignored.size() - 6)));
}

void check_layout(const fs::path& folder, Mesh& mesh) {
  SCOPED_TRACE(folder.filename().string());
  const auto layout = parity::read_json(folder / "layout.json");
  const Head head = layout.at("new_head").get<bool>() ? Head::may_be_new : Head::stored;
  const ModelConfig config = get_model(folder, layout);
  ASSERT_EQ(pretrained_error(folder, config, head), "");
  check_note(folder, config, head, layout.at("ignored"));

  ParallelModel model(*config.entry, *config.config, mesh, {.dropout = false}, /*seed=*/3);
  load_parameters(folder, config, get_slices(model), head);
  model.parameters_changed();
  const Batch batch = read_examples(SafetensorsFile(folder / "batch.safetensors"), config);
  if (head == Head::stored) {
    at::Tensor off = model.logits(batch).to(at::kFloat);
    const at::Tensor expected = SafetensorsFile(folder / "expected.safetensors").tensor("logits");
    off = (off - expected).abs() / expected.abs().max().clamp_min(1);
    if (batch.attention_mask.defined() && off.sizes().slice(0, 2) == batch.attention_mask.sizes())
      off = off.index({batch.attention_mask.to(at::kBool)});
    EXPECT_LE(off.max().item<double>(), 1e-5);
    import_pretrained(folder, folder / "runs" / "imported");
    export_pretrained(folder / "runs" / "imported", folder / "exported", {});
  } else {
    save_and_export(folder, "exported", config, model, mesh);
  }

  const double before = model.step({&batch, 1}).loss;
  const at::Tensor divisor = clipping_to(1.0, find_gradient_norm(model.parameters(), mesh)).divisor;
  for (ShardedParameter& parameter : model.parameters())
    parameter.local.sub_(parameter.grad.div(divisor), /*alpha=*/0.01);
  model.parameters_changed();
  EXPECT_LT(model.step({&batch, 1}).loss, before);
  save_and_export(folder, "trained", config, model, mesh);
  write_safetensors(folder / "trained.safetensors", {{"logits", model.logits(batch).to(at::kFloat)}});
}

TEST(PublishedLayouts, AreReadTrainedAndExported) {
  at::set_num_threads(1);  // the models are too small for more
  Mesh mesh(Environment{}, MeshShape{});
  int64_t count = 0;
  for (const fs::path& folder : parity::folders("")) {
    for (const char* written : {"runs", "exported", "trained"})
      fs::remove_all(folder / written);  // from an earlier run
    check_layout(folder, mesh);
    ++count;
  }
  fmt::print("{} layouts\n", count);
}

/// Writes the layout with one tensor added or replaced.
void write_with(const fs::path& layout, const std::string& name, const at::Tensor& values,
                const TemporaryFolder& folder) {
  fs::copy_file(layout / "config.json", folder.path() / "config.json");
  std::vector<std::pair<std::string, at::Tensor>> tensors = {{name, values}};
  const SafetensorsFile file(layout / "model.safetensors");
  for (const auto& [other, header] : file.tensors())
    if (other != name) tensors.emplace_back(other, file.tensor(other).clone());
  write_safetensors(folder.path() / "model.safetensors", tensors);
}

TEST(PublishedLayouts, TensorsOfLayersEmbeddingsAndModulesThatTheClassLacksAreErrors) {
  const std::pair<const char*, const char*> table[] = {
      {"bert-base-uncased", "bert.encoder.layer.2.output.dense.bias"},
      {"bert-base-uncased", "bert.encoder.layer.0.crossattention.self.key.bias"},
      {"bert-base-uncased", "bert.embeddings.projection.weight"},
      {"bert-base-uncased", "cls.predictions.transform.dense.scale"},
      {"all-MiniLM-L6-v2", "encoder.layer.2.output.dense.bias"},
      {"all-MiniLM-L6-v2", "embeddings.projection.weight"},
      {"roberta-large-mnli", "classifier.dense.scale"},
      {"Qwen3-0.6B", "model.layers.0.self_attn.q_proj.bias"},
      {"Qwen3-0.6B", "model.norm.bias"},
      {"Qwen3-0.6B", "lm_head.bias"},
      {"gpt2", "h.2.mlp.c_fc.bias"},
      {"gpt2", "wpe.bias"},
      {"gpt2", "h.1.attn.bias"},  // not a mask
      {"pythia-70m", "embed_out.bias"},
      {"t5-small", "decoder.block.2.layer.0.SelfAttention.q.weight"},
      {"clip-vit-base-patch32", "logit_bias"},
      {"vit-base-patch16-224", "vit.encoder.layer.2.output.dense.bias"},  // of layers that files name differently
      {"vit-base-patch16-224", "vit.encoder.layer.0.attention.attention.query.scale"},
      {"vit-base-patch16-224", "vit.layernorm.scale"},
      {"vit-base-patch16-224-in21k", "encoder.layer.2.output.dense.bias"},
      {"dinov2-base-imagenet1k", "dinov2.embeddings.register_tokens"},
      {"llava-1.5-7b-hf", "multi_modal_projector.linear_1.scale"},
  };
  for (const auto& [layout, name] : table) {
    const TemporaryFolder folder;
    write_with(parity::cases_folder() / layout, name, at::ones({3}), folder);
    const auto flags = parity::read_json(parity::cases_folder() / layout / "layout.json");
    const Head head = flags.at("new_head").get<bool>() ? Head::may_be_new : Head::stored;
    EXPECT_THAT(pretrained_error(folder.path(), get_model(folder.path(), flags), head),
                HasSubstr(fmt::format("holds \"{}\" [3], which the ", name)))
        << layout;
  }
}

TEST(PublishedLayouts, ATensorByItsOldAndItsCurrentNameIsAnError) {
  for (const char* layout : {"bert-base-uncased", "bert-base-german-cased", "e5-base"}) {
    const std::string prefix = std::string(layout) == "e5-base" ? "" : "bert.";
    const TemporaryFolder folder;
    write_with(parity::cases_folder() / layout, prefix + "embeddings.LayerNorm.weight", at::ones({32}), folder);
    EXPECT_THAT(pretrained_error(folder.path(), read_config(folder.path())),
                HasSubstr("holds \"" + prefix + "embeddings.LayerNorm.gamma\" [32], which the "));
  }
}

TEST(PublishedLayouts, DifferentCopiesOfOneTableAreAnError) {
  for (const char* layout : {"t5-small", "flan-t5-base"})
    for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
      const TemporaryFolder folder;
      write_with(parity::cases_folder() / layout, name, at::ones({96, 32}), folder);
      EXPECT_THAT(pretrained_error(folder.path(), read_config(folder.path())),
                  HasSubstr(fmt::format("\"shared.weight\" and \"{}\" differ: the model shares one table", name)));
    }
}

// layouts.py runs the command.
TEST(PublishedLayouts, FoldersOfOtherFormatsAreErrorsThatSayHowToConvertThem) {
  const std::pair<const char*, const char*> table[] = {{"bert-base-uncased", "BertForMaskedLM"},
                                                       {"gpt2", "GPT2LMHeadModel"},
                                                       {"bert-base-german-cased", "AutoModelForPreTraining"}};
  for (const auto& [layout, model_class] : table) {
    const fs::path folder = parity::cases_folder() / layout / "bin";
    const std::string error = pretrained_error(folder, read_config(folder));
    EXPECT_THAT(error, HasSubstr(folder.string() + " holds pytorch_model.bin, which is not supported: convert it to " +
                                 "model.safetensors with python3 -c 'from transformers import " + model_class));
    std::ofstream(folder / "advice.txt") << error;
  }
}

}  // namespace
}  // namespace modular
