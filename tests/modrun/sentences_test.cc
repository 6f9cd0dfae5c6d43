// Samples of several texts: no shuffle, rank or micro-batch parts them, what they are trained for is the same on every
// mesh, what does not suit the data is rejected, and what is exported is what Sentence Transformers loads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
using Words = std::vector<std::string>;

constexpr int64_t kSamples = 48, kSeq = 6, kVocabulary = 40;

class Sentences : public ModrunTest {
 protected:
  Sentences() {
    at::manual_seed(1);
    folder_.write("tiny.toml", "[train]\nsteps = 6\nbatch_size = 12\n[optim]\nlr = 3e-3\n[eval]\nsamples = 0\n");
  }

  Tensors texts(int64_t texts_of_each) const {
    const at::Tensor lengths = at::randint(2, kSeq + 1, {kSamples, texts_of_each, 1}, at::kLong);
    const at::Tensor mask = at::arange(kSeq).lt(lengths).to(at::kLong);
    return {{"input_ids", at::randint(2, kVocabulary, {kSamples, texts_of_each, kSeq}, at::kLong) * mask},
            {"attention_mask", mask}};
  }

  void write(const Tensors& tensors) const {
    fs::create_directories(folder_.path() / "examples");
    write_safetensors(folder_.path() / "examples/a.safetensors", tensors);
  }

  Words options(const Words& settings, const char* entry = "BertModel") const {
    Words all = {"--set", "model.entry=" + std::string(entry),
                 "--set", "data.format=examples",
                 "--set", "data.paths=['" + (folder_.path() / "examples").string() + "']"};
    for (const char* setting : {"vocab_size=40", "max_position_embeddings=16", "hidden_size=32", "intermediate_size=48",
                                "num_hidden_layers=2", "num_attention_heads=4"})
      all.insert(all.end(), {"--set", std::string("model.config.") + setting});
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    return all;
  }

  std::string error(const Words& settings, const char* entry = "BertModel") const {
    const auto run = train("rejected", options(settings, entry));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  }
};

// Dropout is on, as in BERT's config: what it drops follows from the sample and the text alone.
TEST_F(Sentences, TrainAlikeOnEveryMeshAndInAnyMicroBatches) {
  for (const auto& [count, loss] : {std::pair(2, "in-batch"), std::pair(3, "in-batch"), std::pair(3, "triplet")}) {
    write(texts(count));
    Words settings = {std::string("sentences.loss=") + loss};
    if (loss == std::string("triplet"))  // whose distances see how long embeddings are
      settings = with(settings, {"model.config.pooling=cls+lasttoken+max",
                                 "model.config.embedding_layers=['dense 24 tanh', 'dense 8 gelu no-bias']"});
    ASSERT_EQ(train("alone", with(options(settings), {"--overwrite"})).status, 0);
    const std::vector<double> alone = losses("alone");
    ASSERT_EQ(alone.size(), 6u);
    const std::vector<std::pair<Words, int>> meshes = {{{"train.micro_batches=4"}, 1},
                                                       {{"parallel.dp_shard=3", "train.micro_batches=2"}, 3},
                                                       {{"parallel.dp_replicate=2", "parallel.tp=2"}, 4},
                                                       {{"parallel.pp=2", "train.micro_batches=3"}, 2}};
    for (const auto& [mesh, ranks] : meshes) {
      const auto run = train("mesh", with(options(with(mesh, settings)), {"--overwrite"}),
                             {"--nproc-per-node", std::to_string(ranks)});
      ASSERT_EQ(run.status, 0) << run.output;
      const std::vector<double> found = losses("mesh");
      ASSERT_EQ(found.size(), alone.size());
      for (size_t step = 0; step < alone.size(); ++step)
        EXPECT_NEAR(found[step], alone[step], 1e-5)
            << loss << " of " << count << " texts, step " << step + 1 << " on " << testing::PrintToString(mesh);
    }
  }
}

TEST_F(Sentences, GoOnToTheBit) {
  Tensors scored = texts(2);
  scored.emplace_back("labels", at::rand({kSamples}));
  for (const Tensors& samples : {texts(3), scored}) {
    write(samples);
    const Words settings = {"model.config.pooling=cls+mean", "model.config.embedding_layers=['dense 24 tanh']",
                            "checkpoint.every=3", "checkpoint.keep=0"};
    const Words two = {"--nproc-per-node", "2"};
    for (const char* name : {"whole", "cut"}) {
      const auto run = train(name, with(options(settings), {"--overwrite"}), two);
      ASSERT_EQ(run.status, 0) << run.output;
    }
    fs::remove_all(run_folder("cut") / "checkpoints/step-00000006");
    const auto resumed = modrun(with(two, {"train", run_folder("cut").string(), "--resume=step-00000003"}));
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    expect_same_checkpoint("cut", "whole", "step-00000006");
  }
}

TEST_F(Sentences, ARunKeepsTheLossThatItsDataChose) {
  Tensors scored = texts(2);
  scored.emplace_back("labels", at::rand({kSamples}));
  write(scored);
  ASSERT_EQ(train("scored", options({})).status, 0);
  EXPECT_THAT(get_bytes(run_folder("scored") / "config.toml"), HasSubstr("loss = \"cosine\""));
  write(texts(2));
  ASSERT_EQ(train("pairs", options({})).status, 0);
  EXPECT_THAT(get_bytes(run_folder("pairs") / "config.toml"), HasSubstr("loss = \"in-batch\""));
}

TEST_F(Sentences, WhatDoesNotSuitTheDataIsRejectedBeforeARankStarts) {
  write(texts(2));
  EXPECT_THAT(error({"sentences.loss=triplet"}),
              HasSubstr("sentences.loss is \"triplet\", which compares 3 texts of a sample, but the examples have 2: "
                        "write input_ids as [rows, texts, seq]"));
  EXPECT_THAT(
      error({"sentences.loss=cosine"}),
      HasSubstr("sentences.loss is \"cosine\", but the examples have no \"labels\": write the similarity of the two "
                "texts, from -1 to 1"));
  EXPECT_THAT(error({"sentences.loss=triplets"}),
              HasSubstr("sentences.loss is \"triplets\": it must be one of , supervised, in-batch, contrastive, "
                        "cosine, triplet"));
  EXPECT_THAT(error({"sentences.scale=0"}), HasSubstr("sentences.scale is 0: it must be above 0"));
  EXPECT_THAT(error({}, "BertForMaskedLM"), HasSubstr("\"input_ids\" is [48, 2, 6] of Long: write [batch, seq] of "
                                                      "integers"));
  Tensors mixed = texts(2);
  mixed[1].second = mixed[1].second.select(1, 0).contiguous();
  write(mixed);
  EXPECT_THAT(error({}), HasSubstr("write equal sizes"));
  Tensors three = texts(3);
  three.emplace_back("labels", at::zeros({kSamples}, at::kLong));
  write(three);
  EXPECT_THAT(error({}, "BertForSentencePairClassification"),
              HasSubstr("its samples have 3 texts, and BertForSentencePairClassification, for "
                        "sentence-pair-classification, reads 2"));
  Tensors numbers = texts(2);
  numbers.emplace_back("labels", at::rand({kSamples}));
  write(numbers);
  EXPECT_THAT(error({"sentences.loss=in-batch"}),
              HasSubstr("the \"labels\" of the examples are floating-point numbers: write integers, or set "
                        "sentences.loss to \"cosine\""));
}

TEST_F(Sentences, LabelsThatTheLossDoesNotKnowAreRejectedBeforeARankStarts) {
  Tensors given = texts(2);
  given.emplace_back("labels", at::full({kSamples}, 2, at::kLong));
  write(given);
  EXPECT_THAT(error({"sentences.loss=contrastive"}),
              HasSubstr("\"labels\" holds 2: write 0 or 1, or -100 where there is no target"));
  given.back().second = at::full({kSamples}, 4.5);
  write(given);
  EXPECT_THAT(error({}), HasSubstr("\"labels\" holds 4.5: write numbers from -1 to 1"));
  given.back().second = at::full({kSamples}, std::nan(""));
  write(given);
  EXPECT_THAT(error({}), HasSubstr("\"labels\" holds nan"));
  given.back().second = at::rand({kSamples});
  write(given);
  given.back().second = at::ones({kSamples}, at::kLong);
  write_safetensors(folder_.path() / "examples/b.safetensors", given);
  EXPECT_THAT(error({}), HasSubstr("b.safetensors: \"labels\" are integers, and those of"));
  fs::remove(folder_.path() / "examples/b.safetensors");
}

TEST_F(Sentences, HeldOutExamplesAreWhatTheLossComparesToo) {
  Tensors scored = texts(2);
  scored.emplace_back("labels", at::rand({kSamples}));
  write(scored);
  write_safetensors(folder_.path() / "examples/held.safetensors", texts(2));
  EXPECT_THAT(error({"data.held_out=['*held*']"}), HasSubstr("the examples have no \"labels\""));
  write_safetensors(folder_.path() / "examples/held.safetensors", scored);
  const auto run = train("best", with(options({"data.held_out=['*held*']"}), {"--set", "checkpoint.best=spearman"}));
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(error({"data.held_out=['*held*']", "checkpoint.best=mrr@10"}),
              HasSubstr("checkpoint.best is \"mrr@10\": it must be one of loss, pearson, spearman"));
  EXPECT_THAT(error({"data.held_out=['*held*']", "sentences.loss=in-batch", "eval.metrics=['recall']"}),
              HasSubstr("\"recall\" needs a cutoff"));
  fs::remove(folder_.path() / "examples/held.safetensors");
}

// Dropout is off, as what it drops follows from the place in the full row.
TEST_F(Sentences, TrainAlikeWithoutTheirPadding) {
  Tensors given = texts(2);
  for (auto& [name, tensor] : given) tensor = at::constant_pad_nd(tensor, {0, 10});
  write(given);
  const Words still = {"model.config.hidden_dropout_prob=0", "model.config.attention_probs_dropout_prob=0"};
  ASSERT_EQ(train("whole", options(still)).status, 0);
  const auto run = train("trimmed", options(with(still, {"data.trim=true"})), {"--nproc-per-node", "2"});
  ASSERT_EQ(run.status, 0) << run.output;
  const std::vector<double> whole = losses("whole"), trimmed = losses("trimmed");
  ASSERT_EQ(trimmed.size(), whole.size());
  for (size_t step = 0; step < whole.size(); ++step) EXPECT_NEAR(trimmed[step], whole[step], 1e-5) << step;
}

TEST_F(Sentences, ArePlanned) {
  write(texts(2));
  for (const Words& mesh : {Words{}, Words{"--set", "parallel.pp=2", "--set", "train.micro_batches=3"}}) {
    const auto plan = modrun(with(with({"plan", config_.string(), "--ranks", "2"}, options({})), mesh));
    EXPECT_EQ(plan.status, 0) << plan.output;
  }
  const auto fits = train("fits", options({"parallel.memory=4GiB", "train.micro_batches=0"}));
  EXPECT_EQ(fits.status, 0) << fits.output;
}

TEST_F(Sentences, AnExportedEncoderIsOneOfSentenceTransformers) {
  write(texts(2));
  ASSERT_EQ(train("run", options({})).status, 0);
  const std::string exported = (folder_.path() / "exported").string();
  const std::string inputs = (folder_.path() / "examples/a.safetensors").string();
  const std::string outputs = (folder_.path() / "out.safetensors").string();
  ASSERT_EQ(modrun({"export", (run_folder("run") / "checkpoints").string(), exported}).status, 0);
  ASSERT_EQ(modrun({"forward", "--checkpoint", exported, "--inputs", inputs, "--outputs", outputs}).status, 0);
  const std::string check = "'" PARITY_PYTHON "' '" SENTENCE_TRANSFORMERS_CHECK "' '" + exported + "' '" + inputs +
                            "' '" + outputs + "' 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

// Pairs by in-batch negatives, scored pairs by their cosine, and triplets: each step is of one set and its loss.
TEST_F(Sentences, SetsHaveTheirOwnLosses) {
  const fs::path data = folder_.path() / "examples";
  const auto write_set = [&](const std::string& name, const Tensors& tensors) {
    fs::create_directories(data / name);
    write_safetensors(data / name / "a.safetensors", tensors);
  };
  write_set("pairs", texts(2));
  write_set("triplets", texts(3));
  Tensors scored = texts(2);
  scored.emplace_back("labels", at::rand({kSamples}));
  write_set("scored", scored);
  const auto of_sets = [&](const Words& sets) {
    Words words = {"--set", "data.paths=[]"};
    for (const std::string& set : sets) {
      const std::string name = set.substr(0, set.find(':')), loss = set.substr(set.find(':') + 1);
      words.insert(words.end(), {"--set", "data.sets." + name + ".paths=['" + (data / name).string() + "']"});
      if (!loss.empty()) words.insert(words.end(), {"--set", "data.sets." + name + ".loss='" + loss + "'"});
    }
    return words;
  };
  // One set alone, with its loss, is what the run of that loss is.
  const Words scored_alone = with(options({}), of_sets({"scored:cosine"}));
  ASSERT_EQ(train("set", scored_alone).status, 0);
  ASSERT_EQ(train("whole", with(options({"sentences.loss=cosine"}),
                                {"--set", "data.paths=['" + (data / "scored").string() + "']"}))
                .status,
            0);
  EXPECT_EQ(losses("set"), losses("whole"));

  const Words three = with(options({"data.held_out_part=0.25"}), of_sets({"pairs:", "scored:", "triplets:triplet"}));
  const auto run = train("three", three);
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(get_bytes(run_folder("three") / "config.toml"), HasSubstr("loss = \"in-batch\""));
  const std::vector<double> alone = losses("three");
  for (const auto& [mesh, ranks] :
       std::vector<std::pair<Words, int>>{{{"parallel.dp_shard=3"}, 3},
                                          {{"train.micro_batches=4"}, 1},
                                          {{"parallel.pp=2", "train.micro_batches=3"}, 2}}) {
    const auto other = train("mesh", with(with(three, {"--overwrite"}), {"--set", mesh[0]}),
                             {"--nproc-per-node", std::to_string(ranks)});
    ASSERT_EQ(other.status, 0) << other.output;
    for (size_t step = 0; step < alone.size(); ++step) EXPECT_NEAR(losses("mesh")[step], alone[step], 2e-5);
  }
  const auto resumed = train("three", with(three, {"--resume", "--set", "train.steps=7"}));
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  // The evaluation of each set is by its own loss as well.
  const auto evaluated = modrun({"eval", run_folder("three").string()});
  ASSERT_EQ(evaluated.status, 0) << evaluated.output;
  const auto of_scored =
      modrun(with(with({"eval", config_.string(), "--checkpoint", (run_folder("three") / "checkpoints").string()},
                       options({"sentences.loss=cosine", "data.held_out_part=0.25", "eval.samples=0"})),
                  {"--set", "data.paths=['" + (data / "scored").string() + "']"}));
  const auto value = [](const std::string& text, const std::string& name) {
    const size_t place = text.find(name);
    EXPECT_NE(place, std::string::npos) << name << "\n" << text;
    return place == std::string::npos ? 0.0 : std::stod(text.substr(place + name.size()));
  };
  EXPECT_NEAR(value(evaluated.output, "held_out_loss/scored "), value(of_scored.output, "held-out loss "), 1e-5);

  const auto wrong = train("wrong", with(options({}), of_sets({"pairs:triplet"})));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.output, HasSubstr("data.sets.pairs.loss is \"triplet\""));
  const auto unknown = train("wrong", with(options({}), of_sets({"pairs:tripled"})));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("data.sets.pairs.loss is \"tripled\": it must be one of"));
}

}  // namespace
}  // namespace modular
