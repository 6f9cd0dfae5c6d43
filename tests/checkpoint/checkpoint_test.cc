// Checkpoints over several ranks: whatever mesh reads them, every rank gets its slices of the same tensors.
#include "runtime/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::run_ranks;

ModelConfig tiny_llama(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"model_type", "llama"},   {"vocab_size", 10},       {"hidden_size", 8},
                           {"intermediate_size", 12}, {"num_hidden_layers", 2}, {"num_attention_heads", 2},
                           {"my_key", "kept"}};
  config.update(changes);
  return parse_config(config.dump(), "config.json");
}

/// Values that say where they belong, so that a value in a wrong place is a wrong value.
at::Tensor get_values(const std::string& name, const std::vector<int64_t>& shape) {
  const auto size = c10::multiply_integers(shape);
  const auto seed = static_cast<double>(std::hash<std::string>()(name) % 1000);
  return (at::arange(size, at::kFloat) + seed).view(shape);
}

/// How a tensor is cut for a rank: an equal part of dimension 0 (the last ranks may get less, or nothing), or of
/// dimension 1.
TensorSlice cut(const std::string& name, const std::vector<int64_t>& shape, int64_t dim, int64_t rank, int64_t ranks) {
  dim = std::min<int64_t>(dim, static_cast<int64_t>(shape.size()) - 1);
  const int64_t part = (shape[dim] + ranks - 1) / ranks;
  const int64_t begin = std::min(rank * part, shape[dim]), end = std::min(begin + part, shape[dim]);
  std::vector<int64_t> offset(shape.size(), 0);
  offset[dim] = begin;
  return {name, shape, offset, get_values(name, shape).narrow(dim, begin, end - begin).clone(), true};
}

/// The parameters and the moments of an optimizer, as a rank holds them.
std::vector<TensorSlice> get_slices(const ModelConfig& model, int64_t dim, int64_t rank, int64_t ranks) {
  std::vector<TensorSlice> slices;
  for (const ModelParameter& parameter : model_parameters(model))
    for (const char* prefix : {"", "optimizer.exp_avg."})
      slices.push_back(cut(prefix + parameter.name, parameter.global_shape, dim, rank, ranks));
  return slices;
}

Mesh make_mesh(const Environment& environment) {
  MeshShape shape;
  shape[Axis::dp_shard] = environment.world_size;
  return Mesh(environment, shape);
}

void save(const Environment& environment, const fs::path& folder, int64_t step, int64_t keep_last = 0,
          const ModelConfig& model = tiny_llama()) {
  Mesh mesh = make_mesh(environment);
  const auto slices = get_slices(model, /*dim=*/0, mesh.rank(), mesh.world_size());
  save_checkpoint(folder, model, {.step = step, .values = {{"data", "at " + std::to_string(step)}}}, slices, mesh,
                  keep_last);
}

/// Which ranks have the folder that is loaded.
enum class Has { every_rank, the_first };

/// Loads with slices cut along `dim`, and expects every value where it belongs.
TrainingState load(const Environment& environment, const fs::path& folder, int64_t dim, Has has = Has::every_rank) {
  Mesh mesh = make_mesh(environment);
  const ModelConfig model = tiny_llama();
  auto slices = get_slices(model, dim, mesh.rank(), mesh.world_size());
  std::vector<at::Tensor> expected;
  for (TensorSlice& slice : slices) {
    expected.push_back(slice.local.clone());
    if (slice.local.dim() == 2) slice.local = slice.local.t().contiguous().t();  // slices lie anyhow
    slice.local.fill_(-1);
  }
  TrainingState state =
      has == Has::every_rank
          ? load_checkpoint(find_checkpoint(folder), model, slices, mesh)
          : load_checkpoint_by_first(mesh.rank() == 0 ? find_checkpoint(folder) : "/none", model, slices, mesh);
  for (size_t i = 0; i < slices.size(); ++i) EXPECT_TRUE(at::equal(slices[i].local, expected[i])) << slices[i].name;
  return state;
}

TEST(Checkpoint, IsReadByAnyNumberOfRanksInAnyLayout) {
  const fs::path folder = testing::shared_folder();
  run_ranks(4, [&](const Environment& environment) { save(environment, folder, 7); });
  for (const Has has : {Has::every_rank, Has::the_first})
    for (const int ranks : {1, 2, 3, 4})
      run_ranks(ranks, [&](const Environment& environment) {
        const TrainingState state = load(environment, folder, /*dim=*/ranks % 2, has);
        EXPECT_EQ(state.step, 7);
        EXPECT_EQ(state.values.at("data"), "at 7");
      });
}

TEST(Checkpoint, GeneratorsGoOnWhereTheyWereOnTheSameMesh) {
  const fs::path folder = testing::shared_folder();
  const auto drawn = run_ranks(2, [&](const Environment& environment) {
    at::manual_seed(100 + static_cast<uint64_t>(environment.rank));
    at::rand({3});
    save(environment, folder, 1);
    return testing::Report{at::rand({1}, at::kDouble).item<double>()};
  });
  for (const Has has : {Has::every_rank, Has::the_first}) {
    const auto again = run_ranks(2, [&](const Environment& environment) {
      load(environment, folder, 0, has);
      return testing::Report{at::rand({1}, at::kDouble).item<double>()};
    });
    EXPECT_EQ(drawn, again);
  }
  EXPECT_NE(drawn[0], drawn[1]);
}

TEST(Checkpoint, WhatTheFirstRankFindsDamagedEndsAllThatItReadsFor) {
  const fs::path folder = testing::shared_folder();
  run_ranks(3, [&](const Environment& environment) { save(environment, folder, 1); });
  const fs::path file = find_checkpoint(folder) / "rank-00001.safetensors";
  const auto place = static_cast<std::streamoff>(SafetensorsFile(file).data_begin());
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(place) << "x";
  run_ranks(3, [&](const Environment& environment) {
    const std::string message = get_message<std::runtime_error>([&] { load(environment, folder, 0, Has::the_first); });
    EXPECT_NE(message.find(environment.rank == 0 ? "rank-00001.safetensors is damaged" : "rank 0, which reads /none"),
              std::string::npos)
        << message;
  });
}

TEST(Checkpoint, KeepsTheLastOnesAndPointsToTheNewest) {
  TemporaryFolder folder;
  for (const int64_t step : {10, 20, 30}) save({}, folder.path(), step, /*keep_last=*/2);
  // The order is that of the saves, whatever the times of files that were copied.
  fs::last_write_time(folder.path() / "step-00000020/checkpoint.json",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  save({}, folder.path(), 15, /*keep_last=*/2);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step-00000015", "step-00000030"}));
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000015");
  EXPECT_EQ(find_checkpoint(folder.path() / "step-00000030").filename(), "step-00000030");
}

TEST(Checkpoint, ASecondSaveOfAStepReplacesTheFirst) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  save({}, folder.path(), 10);
  EXPECT_EQ(load({}, folder.path(), 0).step, 10);
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000010.partial"));
}

/// From here on this process sees a file system that cannot exchange names, as NFS: the system call fails as it does
/// there.
void forbid_exchange_of_names() {
  const auto argument = [](int number) { return static_cast<uint32_t>(offsetof(seccomp_data, args[0]) + 8 * number); };
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(4)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RENAME_EXCHANGE, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {filter.size(), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("the system does not let a process forbid itself a system call");
}

TEST(Checkpoint, ASecondSaveOfAStepReplacesTheFirstWhereNamesCannotBeExchanged) {
  const fs::path folder = testing::shared_folder();
  run_ranks(1, [&](const Environment& environment) {
    forbid_exchange_of_names();
    save(environment, folder, 10);
    std::ofstream(folder / "step-00000010/of the first");
    save(environment, folder, 10);
    EXPECT_EQ(load(environment, folder, 0).step, 10);
    EXPECT_FALSE(fs::exists(folder / "step-00000010/of the first"));
    EXPECT_FALSE(fs::exists(folder / "step-00000010.replaced"));
  });
}

TEST(Checkpoint, AnInterruptedReplacementLosesNothing) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  fs::rename(folder.path() / "step-00000010", folder.path() / "step-00000010.replaced");
  EXPECT_EQ(load({}, folder.path(), 0).step, 10);
  save({}, folder.path(), 20);
  EXPECT_TRUE(fs::exists(folder.path() / "step-00000010/checkpoint.json"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000010.replaced"));
}

TEST(Checkpoint, AnInterruptedSaveHarmsNoOlderOneAndIsCleanedUpByTheNext) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  // What a rank that was killed while writing leaves.
  fs::create_directories(folder.path() / "step-00000020.partial");
  std::ofstream(folder.path() / "step-00000020.partial" / "rank-00000.safetensors") << "half a file";
  EXPECT_EQ(load({}, folder.path(), 0).step, 10);
  save({}, folder.path(), 30);
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000020.partial"));
}

TEST(Checkpoint, AFailedSaveThrowsOnEveryRankAndLeavesTheLatest) {
  const fs::path folder = testing::shared_folder();
  run_ranks(2, [&](const Environment& environment) { save(environment, folder, 10); });
  run_ranks(2, [&](const Environment& environment) {
    Mesh mesh = make_mesh(environment);
    auto slices = get_slices(tiny_llama(), 0, mesh.rank(), mesh.world_size());
    if (mesh.rank() == 1) slices.erase(slices.begin());  // a slice without an owner
    const auto saving = [&] { save_checkpoint(folder, tiny_llama(), {.step = 20, .values = {}}, slices, mesh, 1); };
    const std::string message = get_message<std::runtime_error>(saving);
    EXPECT_NE(message.find(mesh.rank() == 0 ? "no owner or several" : "another rank failed in completing a checkpoint"),
              std::string::npos)
        << message;
  });
  EXPECT_EQ(find_checkpoint(folder).filename(), "step-00000010");
  EXPECT_FALSE(fs::exists(folder / "step-00000020"));
}

TEST(Checkpoint, OfAnotherModelIsRejected) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  const fs::path checkpoint = find_checkpoint(folder.path());
  EXPECT_EQ(checkpoint_error(checkpoint, tiny_llama()), "");
  EXPECT_NE(checkpoint_error(checkpoint, tiny_llama({{"intermediate_size", 16}}))
                .find("step-00000010 does not fit: its \"intermediate_size\" is 12 and the run's is 16"),
            std::string::npos);
}

TEST(Checkpoint, WithoutATensorOfTheRunIsRejected) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  Mesh mesh = make_mesh({});
  const std::vector<TensorSlice> wanted = {cut("optimizer.momentum.model.norm.weight", {8}, 0, 0, 1)};
  const auto message = get_message<std::runtime_error>(
      [&] { load_checkpoint(find_checkpoint(folder.path()), tiny_llama(), wanted, mesh); });
  EXPECT_NE(message.find("does not fit: it has no \"optimizer.momentum.model.norm.weight\""), std::string::npos)
      << message;
}

TEST(Checkpoint, ACutOffFileIsRejectedBeforeARankStarts) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  const fs::path file = find_checkpoint(folder.path()) / "rank-00000.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_NE(checkpoint_error(file.parent_path(), tiny_llama()).find("rank-00000.safetensors is cut off"),
            std::string::npos);
}

TEST(Checkpoint, ChangedBytesOfATensorAreRejected) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  const fs::path path = find_checkpoint(folder.path()) / "rank-00000.safetensors";
  const std::string whole = read_file(path);
  const SafetensorsFile file(path);
  size_t data = whole.size();  // where the tensors' bytes begin
  for (const auto& [name, header] : file.tensors()) data = std::min(data, whole.size() - header.end);
  for (const auto& [damaged, header] : file.tensors()) {
    std::string changed = whole;
    changed[data + header.end - 1] = static_cast<char>(changed[data + header.end - 1] ^ 0x40);
    TemporaryFolder other;
    fs::copy(folder.path(), other.path(), fs::copy_options::recursive);
    std::ofstream(other.path() / "step-00000010/rank-00000.safetensors", std::ios::binary) << changed;
    const std::string message = get_message<std::runtime_error>([&] { load({}, other.path(), 0); });
    EXPECT_NE(message.find("rank-00000.safetensors is damaged: the values of \"" +
                           (damaged == "digests" ? "" : damaged + "\"")),
              std::string::npos)
        << damaged << ": " << message;
  }
}

TEST(Checkpoint, AnIndexThatPutsBoxesElsewhereIsRejected) {
  const fs::path folder = testing::shared_folder();
  run_ranks(2, [&](const Environment& environment) { save(environment, folder, 10); });
  const fs::path path = folder / "step-00000010/checkpoint.json";
  const std::string text = read_file(path);
  const auto find_error = [&](const auto& change) {
    nlohmann::json index = nlohmann::json::parse(text);
    change(index);
    std::ofstream(path) << index.dump();
    return checkpoint_error(path.parent_path(), tiny_llama());
  };
  const auto slices = [](nlohmann::json& index) -> nlohmann::json& {
    return index["tensors"]["lm_head.weight"]["boxes"];
  };
  const std::vector<std::function<void(nlohmann::json&)>> changes = {
      [&](nlohmann::json& index) { std::swap(slices(index)[0]["offset"], slices(index)[1]["offset"]); },
      [&](nlohmann::json& index) { slices(index)[1]["offset"][0] = 4; },
      [&](nlohmann::json& index) { slices(index)[0]["offset"] = nlohmann::json::array(); },
      [&](nlohmann::json& index) { index["step"] = -5; },
      [&](nlohmann::json& index) { index["step"] = 3.7; },
      [&](nlohmann::json& index) { index = 3; }};
  EXPECT_EQ(find_error([](nlohmann::json&) {}), "");
  for (size_t i = 0; i < changes.size(); ++i) EXPECT_NE(find_error(changes[i]), "") << "change " << i;
  std::ofstream(path) << std::string(300000, '[');
  EXPECT_NE(checkpoint_error(path.parent_path(), tiny_llama()).find("it is not a JSON object"), std::string::npos);
}

TEST(Checkpoint, APointerToNothingIsRejected) {
  TemporaryFolder folder;
  save({}, folder.path(), 10);
  fs::remove_all(folder.path() / "step-00000010");
  EXPECT_NE(get_message<std::runtime_error>([&] { find_checkpoint(folder.path()); }).find("which is not there"),
            std::string::npos);
}

TEST(Pretrained, ExportAndImportKeepEveryValue) {
  TemporaryFolder folder;
  for (const bool tied : {false, true}) {
    const ModelConfig model = tiny_llama({{"tie_word_embeddings", tied}});
    const fs::path run = folder.path() / (tied ? "tied" : "untied");
    save({}, run / "checkpoints", 10, 0, model);
    for (const int64_t shard : {int64_t{1} << 40, int64_t{500}}) {
      const fs::path exported = run / std::to_string(shard), imported = run / ("imported-" + std::to_string(shard));
      export_pretrained(find_checkpoint(run / "checkpoints"), exported,
                        {.dtype = at::kFloat, .max_shard_bytes = shard});
      EXPECT_EQ(fs::exists(exported / "model.safetensors"), shard > 500);
      EXPECT_NE(read_config(exported).other_keys.find("\"my_key\":\"kept\""), std::string::npos);
      import_pretrained(exported, imported);
      for (const fs::path& source : {exported, imported}) {
        EXPECT_EQ(config_difference(read_config(source), model), "");
        auto slices = get_slices(model, 0, 0, 1);
        std::erase_if(slices, [](const TensorSlice& slice) { return slice.name.starts_with("optimizer."); });
        for (const TensorSlice& slice : slices) {
          const at::Tensor expected = slice.local.clone();
          slice.local.zero_();
          load_parameters(source, model, {&slice, 1});
          EXPECT_TRUE(at::equal(slice.local, expected)) << slice.name;
        }
      }
    }
  }
}

/// A Hugging Face folder with the tensors that `change` makes of the right ones.
fs::path folder_with(const TemporaryFolder& folder, const ModelConfig& model,
                     const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
  std::map<std::string, at::Tensor> tensors;
  for (const ModelParameter& parameter : model_parameters(model))
    tensors[parameter.name] = get_values(parameter.name, parameter.global_shape);
  change(tensors);
  write_safetensors(folder.path() / "model.safetensors", {tensors.begin(), tensors.end()});
  return folder.path();
}

TEST(Pretrained, TensorsThatAreNotTheModelsAreRejectedByName) {
  TemporaryFolder folder;
  const ModelConfig model = tiny_llama(), tied = tiny_llama({{"tie_word_embeddings", true}});
  using Tensors = std::map<std::string, at::Tensor>;
  EXPECT_EQ(pretrained_error(folder_with(folder, model, [](Tensors&) {}), model), "");
  const auto error = [&](const ModelConfig& of, const std::function<void(Tensors&)>& change) {
    const std::string text = pretrained_error(folder_with(folder, of, change), of);
    return text.empty() ? text : text.substr(folder.path().string().size());
  };
  EXPECT_EQ(error(model, [](Tensors& t) { t.erase("model.norm.weight"); }),
            " lacks \"model.norm.weight\" [8], which the LlamaForCausalLM of its config.json has");
  EXPECT_EQ(error(model, [](Tensors& t) { t["lm_head.bias"] = at::ones({2, 8}); }),
            " holds \"lm_head.bias\" [2, 8], which the LlamaForCausalLM of its config.json does not have");
  EXPECT_EQ(error(model, [](Tensors& t) { t["score.weight"] = at::ones({2, 8}); }), "");
  EXPECT_EQ(error(model, [](Tensors& t) { t["model.norm.weight"] = at::ones({9}); }),
            ": \"model.norm.weight\" is [9] and the LlamaForCausalLM of its config.json has [8]");
  EXPECT_EQ(error(model, [](Tensors& t) { t["model.norm.weight"] = at::ones({8}, at::kInt); }),
            "/model.safetensors: \"model.norm.weight\" is of integers, and the model's \"model.norm.weight\" of "
            "floating-point numbers");
  EXPECT_EQ(error(tied, [](Tensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"].clone(); }), "");
  EXPECT_NE(error(tied, [](Tensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"] + 1; })
                .find("differ though the config ties them"),
            std::string::npos);
  EXPECT_EQ(error(model, [](Tensors& t) { t["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({2}); }), "");
  EXPECT_EQ(error(model,
                  [](Tensors& t) {
                    Tensors stripped;
                    for (const auto& [name, tensor] : t)
                      stripped[name.starts_with("model.") ? name.substr(6) : name] = tensor;
                    t = stripped;
                  }),
            "");
}

TEST(Pretrained, TiedTensorsThatAreBothInTheFileAndDifferAreReadAsNotTied) {
  TemporaryFolder folder;
  const ModelConfig untied = tiny_llama(), tied = tiny_llama({{"tie_word_embeddings", true}});
  std::ofstream(folder.path() / "config.json") << format_config(tied, "float32");
  using Tensors = std::map<std::string, at::Tensor>;
  const auto read = [&](const std::function<void(Tensors&)>& change) {
    return read_pretrained_config(folder_with(folder, tied, change));
  };
  const ModelConfig without = read([](Tensors&) {});
  EXPECT_EQ(config_difference(without, tied), "");
  const ModelConfig equal = read([](Tensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"].clone(); });
  EXPECT_EQ(config_difference(equal, tied), "");
  const ModelConfig different = read([](Tensors& t) { t["lm_head.weight"] = t["model.embed_tokens.weight"] + 1; });
  EXPECT_EQ(config_difference(different, untied), "");
  EXPECT_EQ(pretrained_error(folder.path(), different), "");
}

TEST(Pretrained, AFolderWithoutSafetensorsIsRejected) {
  TemporaryFolder folder;
  EXPECT_NE(pretrained_error(folder.path(), tiny_llama()).find("holds neither model.safetensors nor"),
            std::string::npos);
}

TEST(Pretrained, ExportOverwritesNothing) {
  TemporaryFolder folder;
  save({}, folder.path() / "checkpoints", 10);
  const fs::path exported = folder.path() / "exported";
  export_pretrained(find_checkpoint(folder.path() / "checkpoints"), exported, {});
  const auto again = [&] { export_pretrained(find_checkpoint(folder.path() / "checkpoints"), exported, {}); };
  EXPECT_NE(get_message<std::runtime_error>(again).find("exists already"), std::string::npos);
}

}  // namespace
}  // namespace modular
