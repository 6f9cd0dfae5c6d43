// Training on labelled examples: every task, identical on every mesh and after resuming; and rejections before ranks
// start.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
using Words = std::vector<std::string>;

constexpr int64_t kRows = 48, kSeq = 12, kVocabulary = 40;

/// Ids with padding 0 after 5 to 12 other ids in each row.
Tensors padded_ids() {
  const at::Tensor lengths = at::randint(5, kSeq + 1, {kRows, 1}, at::kLong);
  const at::Tensor mask = at::arange(kSeq).unsqueeze(0).lt(lengths);
  return {{"input_ids", at::randint(2, kVocabulary, {kRows, kSeq}, at::kLong) * mask.to(at::kLong)},
          {"attention_mask", mask.to(at::kBool)}};
}

Tensors with(Tensors tensors, const std::string& name, const at::Tensor& tensor) {
  tensors.emplace_back(name, tensor);
  return tensors;
}

/// Rows labelled by whether the first id is even.
Tensors parities() {
  const Tensors ids = padded_ids();
  return with(ids, "labels", ids[0].second.select(1, 0).remainder(2).to(at::kInt));
}

const Words kBert = {"--set", "model.config.vocab_size=40",
                     "--set", "model.config.type_vocab_size=1",
                     "--set", "model.config.max_position_embeddings=16"};

class Examples : public ModrunTest {
 protected:
  Examples() { at::manual_seed(1); }

  std::filesystem::path folder() const { return folder_.path() / "examples"; }

  void write(const std::string& name, const Tensors& tensors) const {
    std::filesystem::create_directories(folder());
    write_safetensors(folder() / name, tensors);
  }

  Words options(const std::string& entry, const Words& more) const {
    Words all = {"--set", "model.entry=" + entry,
                 "--set", "data.format=examples",
                 "--set", "data.paths=['" + folder().string() + "']",
                 "--set", "data.validation_every=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string error(const std::string& entry, const Words& more = kBert) const {
    const auto run = train("rejected", options(entry, more), {"--nproc-per-node", "2"});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(std::filesystem::exists(run_folder("rejected")));
    return run.output;
  }

  static bool has(const std::string& entry) { return modrun({"entries"}).output.find(entry) != std::string::npos; }

  double loss(const std::string& name, size_t step) const { return steps(name).at(step)["loss"].get<double>(); }
  /// Mean over a pass over all rows in steps of 8.
  double loss_of_pass(const std::string& name, size_t pass) const {
    double sum = 0.0;
    for (size_t step = 0; step < kRows / 8; ++step) sum += loss(name, pass * kRows / 8 + step);
    return sum / (kRows / 8);
  }
};

TEST_F(Examples, ClassifierTrainsIdenticallyOnEveryMeshAndResumed) {
  write("a.safetensors", parities());
  write("b.safetensors", parities());
  write("held-out.safetensors", parities());
  Words more = kBert;
  more.insert(more.end(), {"--set", "data.validation=*held-out*", "--set", "checkpoint.every=5"});
  const Words all = options("BertForSequenceClassification", more);
  const auto alone = train("alone", all);
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("96 examples to train on, 48 examples for validation"));
  EXPECT_THAT(alone.output, HasSubstr("nats/row after step 10"));
  EXPECT_NEAR(loss("alone", 0), 0.69, 0.1) << "ln 2";

  for (const Words& mesh : {Words{"--set", "parallel.dp_replicate=2"}, Words{"--set", "parallel.tp=2"},
                            Words{"--set", "parallel.pp=2", "--set", "train.micro_batches=2"}}) {
    Words split = all;
    split.insert(split.end(), mesh.begin(), mesh.end());
    const auto run = train("split", split, {"--nproc-per-node", "2"});
    ASSERT_EQ(run.status, 0) << run.output;
    for (size_t step = 0; step < 10; ++step) EXPECT_NEAR(loss("split", step), loss("alone", step), 5e-5) << mesh[1];
    std::filesystem::remove_all(run_folder("split"));
  }

  std::filesystem::copy(run_folder("alone"), run_folder("resumed"), std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(run_folder("resumed") / "checkpoints/step-00000010");
  std::ofstream(run_folder("resumed") / "checkpoints/latest") << "step-00000005\n";
  Words resume = all;
  resume.push_back("--resume");
  const auto resumed = train("resumed", resume);
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_EQ(loss("resumed", 9), loss("alone", 9));

  const auto eval = modrun({"eval", run_folder("alone").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr("over 8 rows"));
}

TEST_F(Examples, EvaluationWithoutTargetsHasNoLossAndIsNotTheBest) {
  Tensors rows = parities();
  const at::Tensor none = at::arange(kRows).remainder(2).eq(0).logical_or_(at::arange(kRows).ge(kRows * 3 / 4));
  rows.back().second.masked_fill_(none, -100);
  write("a.safetensors", rows);
  Words more = kBert;
  more.insert(more.end(), {"--set", "data.validation_fraction=0.25", "--set", "train.batch_size=1", "--set",
                           "train.steps=12", "--set", "eval.every=2", "--set", "eval.patience=1", "--set",
                           "checkpoint.best=accuracy", "--set", "metrics.tensorboard=true"});
  const auto run = train("run", options("BertForSequenceClassification", more));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("no validation loss, as all labels are -100 after step 2"));
  EXPECT_THAT(run.output, HasSubstr("has no target, as all of its labels are -100"));
  const auto all = steps("run");
  EXPECT_EQ(all.size(), 12u) << "patience is for evaluations with a target";
  const auto lacks_loss = std::ranges::count_if(all, [](const auto& step) { return !step.contains("loss"); });
  EXPECT_GT(lacks_loss, 0);
  EXPECT_LT(lacks_loss, 12);
  for (const auto& evaluation : events("run", "evaluation"))
    EXPECT_TRUE(!evaluation.contains("val_loss") && !evaluation.contains("metrics")) << evaluation;
  EXPECT_FALSE(std::filesystem::exists(run_folder("run") / "checkpoints/best"));
  EXPECT_FALSE(events("run", "end").at(0).contains("val_loss")) << "of the last evaluation, or the best";
  EXPECT_THAT(run.output, ::testing::Not(HasSubstr("last validation loss")));
  const auto shown = testing::end_of_program(
      testing::start_program({PYTHON, READ_EVENTS, (run_folder("run") / "tensorboard").string()}, folder_.path()));
  EXPECT_EQ(shown.status, 0) << shown.output;
  EXPECT_THAT(shown.output, ::testing::Not(HasSubstr("val_loss")));
  EXPECT_EQ(std::ranges::count_if(
                shown.lines, [](const std::string& line) { return nlohmann::json::parse(line).at("tag") == "loss"; }),
            12 - lacks_loss);
  more.insert(more.end(), {"--set", "checkpoint.best=loss", "--set", "train.steps=4"});
  const auto by_loss = train("by-loss", options("BertForSequenceClassification", more));
  EXPECT_EQ(by_loss.status, 0) << by_loss.output;
  EXPECT_FALSE(std::filesystem::exists(run_folder("by-loss") / "checkpoints/best"));
  const auto eval = modrun({"eval", run_folder("run").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr("no validation loss and no metrics: all labels are -100"));
  const auto of_two =
      modrun({"--nproc-per-node", "2", "eval", run_folder("run").string(), "--set", "train.batch_size=2"});
  EXPECT_EQ(of_two.status, 0) << of_two.output;
  EXPECT_THAT(of_two.output, HasSubstr("no validation loss and no metrics: all labels are -100"));
}

TEST_F(Examples, RegressionAndMultiLabelResumeBitIdentically) {
  const Tensors rows = padded_ids();
  const at::Tensor& ids = rows[0].second;
  const Words several = {"--set", "model.config.num_labels=4", "--set",
                         "model.config.problem_type=multi_label_classification"};
  const std::vector<std::pair<at::Tensor, Words>> cases = {
      {ids.select(1, 0).to(at::kFloat) / 40, {"--set", "model.config.num_labels=1"}},
      {ids.narrow(1, 0, 4).gt(20).to(at::kFloat), several}};
  for (const auto& [labels, settings] : cases) {
    write("a.safetensors", with(rows, "labels", labels));
    Words more = modular::with(kBert, settings);
    more.insert(more.end(), {"--set", "checkpoint.every=5", "--set", "checkpoint.keep=0", "--overwrite"});
    const Words two = {"--nproc-per-node", "2"};
    for (const char* name : {"whole", "cut"}) {
      const auto run = train(name, options("BertForSequenceClassification", more), two);
      ASSERT_EQ(run.status, 0) << run.output;
    }
    std::filesystem::remove_all(run_folder("cut") / "checkpoints/step-00000010");
    const auto resumed = modrun(modular::with(two, {"train", run_folder("cut").string(), "--resume=step-00000005"}));
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    expect_same_checkpoint("cut", "whole", "step-00000010");
  }
}

TEST_F(Examples, EvaluatesWithoutTrainingData) {
  write("a.safetensors", parities());
  const auto run = train("run", options("BertForSequenceClassification", kBert));
  ASSERT_EQ(run.status, 0) << run.output;
  const auto test = folder_.path() / "test [1].safetensors";
  write_safetensors(test, parities());
  const auto eval = modrun({"eval", run_folder("run").string(), "--set", "data.paths=['" + test.string() + "']",
                            "--set", "data.validation=['*']", "--set", "eval.samples=0"});
  ASSERT_EQ(eval.status, 0) << eval.output;
  const auto outputs = folder_.path() / "out.safetensors";
  const auto forward = modrun({"forward", "--checkpoint", (run_folder("run") / "checkpoints").string(), "--inputs",
                               test.string(), "--outputs", outputs.string()});
  ASSERT_EQ(forward.status, 0) << forward.output;
  const size_t at = eval.output.find("validation loss ");
  ASSERT_NE(at, std::string::npos) << eval.output;
  EXPECT_NEAR(std::stod(eval.output.substr(at + 16)), SafetensorsFile(outputs).tensor("loss").item<double>(), 1e-5);
}

TEST_F(Examples, TrimsPaddingIdenticallyOnEveryMesh) {
  constexpr int64_t kLong = 60;
  const at::Tensor mask = at::arange(kLong).unsqueeze(0).lt(at::randint(3, 30, {kRows, 1}, at::kLong));
  const at::Tensor ids = at::randint(2, kVocabulary, {kRows, kLong}, at::kLong) * mask.to(at::kLong);
  const at::Tensor tokens = ids.remainder(2).masked_fill(mask.logical_not(), -100);
  const Tensors padded = {{"input_ids", ids}, {"attention_mask", mask}};
  Words bert = kBert;
  bert.back() = "model.config.max_position_embeddings=64";
  for (const char* dropout : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    bert.insert(bert.end(), {"--set", std::string("model.config.") + dropout + "=0"});
  const Words t5 = {"--set", "model.config.vocab_size=40", "--set", "model.config.d_model=32",
                    "--set", "model.config.d_kv=8",        "--set", "model.config.d_ff=48",
                    "--set", "model.config.num_layers=2",  "--set", "model.config.dropout_rate=0"};
  for (const auto& [entry, labels, settings] :
       {std::tuple("BertForTokenClassification", tokens, bert), std::tuple("T5ForConditionalGeneration", tokens, t5)}) {
    if (!has(entry)) continue;                 // built with other families
    if (std::string(entry).starts_with("T5"))  // which lacks options that the config file has for Llama
      folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 8\n[optim]\nlr = 3e-3\n");
    write("all.safetensors", with(padded, "labels", labels));
    Words all = settings;
    all.insert(all.end(), {"--set", "data.validation_fraction=0.2"});
    ASSERT_EQ(train("whole", options(entry, all)).status, 0);
    all.insert(all.end(), {"--set", "data.trim=true"});
    for (const Words& mesh : {Words{}, Words{"parallel.dp_shard=2", "train.micro_batches=2"},
                              Words{"parallel.pp=2", "train.micro_batches=2"}, Words{"parallel.tp=2"}}) {
      Words split = options(entry, all), launcher;
      for (const std::string& setting : mesh) split.insert(split.end(), {"--set", setting});
      if (!mesh.empty()) launcher = {"--nproc-per-node", "2"};
      const auto run = train("trimmed", split, launcher);
      ASSERT_EQ(run.status, 0) << run.output;
      for (size_t step = 0; step < 10; ++step)
        EXPECT_NEAR(loss("trimmed", step), loss("whole", step), 5e-5) << entry << (mesh.empty() ? "" : mesh[0]);
      const auto one = events("whole", "evaluation").at(0), other = events("trimmed", "evaluation").at(0);
      EXPECT_EQ(one["targets"], other["targets"]);
      EXPECT_NEAR(one["val_loss"].get<double>(), other["val_loss"].get<double>(), 5e-5);
      std::filesystem::remove_all(run_folder("trimmed"));
    }
    std::filesystem::remove_all(run_folder("whole"));
  }
}

TEST_F(Examples, GroupsByLengthAndResumesBitIdentically) {
  write("all.safetensors", parities());
  const std::string entry = "BertForSequenceClassification";
  Words all = kBert;
  all.insert(all.end(),
             {"--set", "data.group_by_length=true", "--set", "data.trim=true", "--set", "checkpoint.every=4"});
  ASSERT_EQ(train("run", options(entry, all)).status, 0);
  const auto split = train("split", options(entry, all), {"--nproc-per-node", "2"});
  ASSERT_EQ(split.status, 0) << split.output;
  for (size_t step = 0; step < 10; ++step) EXPECT_NEAR(loss("split", step), loss("run", step), 5e-5);
  const double last = loss("run", 9);
  Words resume = options(entry, all);
  resume.push_back("--resume=step-00000008");
  ASSERT_EQ(train("run", resume).status, 0);
  EXPECT_EQ(loss("run", 9), last);

  Words other = options(entry, kBert);
  other.insert(other.end(), {"--resume", "--set", "train.steps=12"});
  const auto rejected = train("run", other);
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("--resume: data.group_by_length is false, and was true when the run began"));

  write("all.safetensors",
        {{"input_ids", at::ones({kRows, kSeq}, at::kLong)}, {"labels", at::zeros({kRows}, at::kLong)}});
  EXPECT_THAT(error(entry, all), HasSubstr("need attention_mask, which the files of data.paths do not have"));
  const auto of_text = train("rejected", {"--set", "data.trim=true"});
  EXPECT_EQ(of_text.status, 2);
  EXPECT_THAT(of_text.output, HasSubstr("data.trim applies only to examples, whose length is given by attention_mask"));
}

TEST_F(Examples, EveryTaskOfTextTrains) {
  const Tensors ids = padded_ids();
  const at::Tensor& input = ids[0].second;
  const at::Tensor padding = input.eq(0);
  struct Task {
    const char* entry;
    Tensors tensors;
    Words settings;
  };
  const Words t5 = {"--set", "model.config.vocab_size=40", "--set", "model.config.d_model=32",
                    "--set", "model.config.d_kv=8",        "--set", "model.config.d_ff=48",
                    "--set", "model.config.num_layers=2",  "--set", "model.config.dropout_rate=0"};
  Words session = {"--set", "model.config.vocab_size=40",    "--set", "model.config.feature_cardinalities=[5, 9]",
                   "--set", "model.config.feature_numbers=2"};
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    session.insert(session.end(), {"--set", std::string("model.config.") + dropout + "=0"});
  const std::vector<Task> tasks = {
      {"BertForTokenClassification", with(ids, "labels", input.remainder(2).masked_fill(padding, -100)), kBert},
      {"BertModel", with(ids, "labels", at::arange(kRows).remainder(4)), kBert},
      {"BertForMaskedLM", with(ids, "labels", input.masked_fill(padding, -100)), kBert},
      {"T5ForConditionalGeneration", with(ids, "labels", input.flip(1).masked_fill(padding.flip(1), -100)), t5},
      {"SessionForNextItem",
       {{"input_ids", input},
        {"feature_ids", at::stack({input.remainder(5), input.remainder(9)}, -1)},
        {"feature_values", at::randn({kRows, kSeq, 2})}},
       session},
  };
  for (const auto& [entry, tensors, settings] : tasks) {
    if (!has(entry)) continue;  // built with other families
    write("all.safetensors", tensors);
    Words base = settings;
    base.insert(base.end(), {"--set", "train.steps=18"});
    if (std::string(entry).starts_with("T5") || std::string(entry).starts_with("Session")) {
      // The config file of the tests' Llama has keys that only these lack.
      folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 8\n[optim]\nlr = 3e-3\n");
      base.insert(base.end(), {"--set", "model.entry=" + std::string(entry)});
    }
    const auto run = train(entry, options(entry, base));
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_LT(loss_of_pass(entry, 2), loss_of_pass(entry, 0)) << entry;
  }
}

TEST_F(Examples, ImagesAndPairsTrainIdenticallyOnEveryMesh) {
  folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 8\n[optim]\nlr = 3e-3\n");
  const at::Tensor labels = at::arange(kRows).remainder(3);
  const at::Tensor images = at::randn({kRows, 3, 8, 8}) + labels.view({-1, 1, 1, 1});
  const at::Tensor ids = at::cat({labels.unsqueeze(1) + 1, at::randint(4, 8, {kRows, 4}), at::full({kRows, 1}, 9)}, 1);
  Words vit = {"--set", "model.config.num_labels=3"},
        clip = {"--set", "model.config.projection_dim=16",         "--set", "model.config.text_config.vocab_size=10",
                "--set", "model.config.text_config.eos_token_id=9"};
  const auto add = [](Words& words, const std::string& inside, const Words& settings) {
    for (const std::string& setting : settings)
      words.insert(words.end(), {"--set", "model.config." + inside + setting});
  };
  const Words layers = {"hidden_size=16", "intermediate_size=32", "num_hidden_layers=2", "num_attention_heads=2"};
  const Words pixels = {"image_size=8", "patch_size=4"};
  for (const Words& settings : {layers, pixels}) {
    add(vit, "", settings);
    add(clip, "vision_config.", settings);
  }
  add(clip, "text_config.", layers);
  struct Task {
    const char* entry;
    Tensors tensors;
    Words settings;
  };
  for (const auto& [entry, tensors, settings] :
       {Task{"ViTForImageClassification", {{"pixel_values", images}, {"labels", labels}}, vit},
        Task{"CLIPModel", {{"pixel_values", images.to(at::kHalf)}, {"input_ids", ids.to(at::kLong)}}, clip}}) {
    if (!has(entry)) continue;  // built with other families
    write("all.safetensors", tensors);
    const std::string alone = std::string(entry) + "-alone", split = std::string(entry) + "-split";
    const auto one = train(alone, options(entry, settings)),
               two = train(split, options(entry, settings), {"--nproc-per-node", "2"});
    ASSERT_EQ(one.status, 0) << one.output;
    ASSERT_EQ(two.status, 0) << two.output;
    EXPECT_LT(loss(alone, 9), loss(alone, 0)) << entry;
    for (size_t step = 0; step < 10; ++step) EXPECT_NEAR(loss(split, step), loss(alone, step), 5e-5) << entry;
  }
}

TEST_F(Examples, RollsBackAfterANonFiniteStepAndSkipsItsData) {
  const std::string entry = "ViTForImageClassification";
  if (!has(entry)) return;  // built with other families
  folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 8\n[optim]\nlr = 3e-3\n");
  const at::Tensor labels = at::arange(kRows).remainder(2);
  const at::Tensor images = at::randn({kRows, 1, 8, 8}) + labels.view({-1, 1, 1, 1});
  images[kRows / 2].fill_(std::numeric_limits<float>::quiet_NaN());
  write("all.safetensors", {{"pixel_values", images}, {"labels", labels}});
  Words small = {"--set", "model.config.image_size=8",   "--set", "model.config.patch_size=4",
                 "--set", "model.config.hidden_size=16", "--set", "model.config.num_hidden_layers=2",
                 "--set", "model.config.num_channels=1", "--set", "model.config.num_attention_heads=2",
                 "--set", "train.on_nonfinite=rollback"};
  const auto without = train("without", options(entry, small));
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.output, HasSubstr("there is no checkpoint to roll back to: lower checkpoint.every"));

  small.insert(small.end(), {"--set", "checkpoint.every=2"});
  const auto alone = train("alone", options(entry, small));
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("the run continues from"));
  const auto all = steps("alone");
  EXPECT_EQ(all.back()["step"], 10);
  for (const auto& step : all) EXPECT_TRUE(step["loss"].is_number()) << step;
  // Each pass over the data loses the step with that image, and the steps since the previous checkpoint.
  EXPECT_GT(all.back()["samples"].get<int64_t>(), 80);
  // A run that was resumed from an older checkpoint does not roll back to one that is not its own.
  std::filesystem::copy(run_folder("alone"), run_folder("resumed"), std::filesystem::copy_options::recursive);
  Words wild = small;
  wild.insert(wild.end(), {"--set", "optim.lr=1e37", "--set", "optim.schedule=constant", "--set", "train.steps=20",
                           "--set", "checkpoint.every=50", "--resume=step-00000008"});
  const auto again = train("resumed", options(entry, wild));
  EXPECT_EQ(again.status, 1) << again.output;
  EXPECT_THAT(again.output,
              HasSubstr("the run continues from " + run_folder("resumed").string() + "/checkpoints/step-00000008"));
  EXPECT_THAT(again.output, HasSubstr("again after rolling back to"));

  const auto split = train("split", options(entry, small), {"--nproc-per-node", "2"});
  ASSERT_EQ(split.status, 0) << split.output;
  const auto other = steps("split");
  ASSERT_EQ(other.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(other[i]["step"], all[i]["step"]);
    EXPECT_NEAR(other[i]["loss"].get<double>(), all[i]["loss"].get<double>(), 1e-4);
  }
}

TEST_F(Examples, RejectsUnsupportedImagesBeforeStartingRanks) {
  const Words small = {"--set", "model.config.image_size=8",   "--set", "model.config.patch_size=4",
                       "--set", "model.config.hidden_size=16", "--set", "model.config.num_hidden_layers=2",
                       "--set", "model.config.num_channels=1", "--set", "model.config.num_attention_heads=2"};
  folder_.write("tiny.toml", "[train]\nsteps = 2\nbatch_size = 8\n");  // without options that only the tests' Llama has
  const at::Tensor labels = at::arange(kRows).remainder(2);
  const std::string sized = "ViTForImageClassification", free = "Dinov2ForImageClassification";
  if (has(sized)) {  // if built with it
    write("all.safetensors", {{"pixel_values", at::randn({kRows, 1, 12, 8})}, {"labels", labels}});
    EXPECT_THAT(error(sized, small), HasSubstr("images have 1 channels and 12 x 8 pixels, but the model takes 1 "
                                               "channels and 8 x 8: write images of that size, or set image_size"));
  }
  if (has(free)) {
    write("all.safetensors", {{"pixel_values", at::randn({kRows, 1, 12, 8})}, {"labels", labels}});
    const auto run = train("other-size", options(free, small));
    EXPECT_EQ(run.status, 0) << run.output;
    write("all.safetensors", {{"pixel_values", at::randn({kRows, 3, 8, 8})}, {"labels", labels}});
    EXPECT_THAT(error(free, small), HasSubstr("images have 3 channels"));
  }
}

TEST_F(Examples, RejectsUnsuitableFilesBeforeStartingRanks) {
  const std::string entry = "BertForSequenceClassification";
  write("all.safetensors", padded_ids());
  EXPECT_THAT(error(entry), HasSubstr("all.safetensors holds no \"labels\": BertForSequenceClassification, for "
                                      "sequence-classification, reads input_ids"));
  write("all.safetensors", with(padded_ids(), "labels", at::full({kRows}, 2)));
  EXPECT_THAT(error(entry),
              HasSubstr("\"labels\" holds 2: write ids from 0 to 1 (num_labels of the model's config is 2)"));
  write("all.safetensors", with(padded_ids(), "labels", at::zeros({kRows, kSeq}, at::kLong)));
  EXPECT_THAT(error(entry), HasSubstr("\"labels\" is [48, 12] of Long: write [batch] of integers"));
  write("all.safetensors", with(padded_ids(), "labels", at::full({kRows}, -100)));
  EXPECT_THAT(error(entry), HasSubstr("all.safetensors: all labels are -100, which is no target"));
  write("all.safetensors", with(parities(), "position_ids", at::zeros({kRows, kSeq + 1}, at::kLong)));
  EXPECT_THAT(error(entry), HasSubstr("write equal sizes"));

  write("all.safetensors", parities());
  write("other.safetensors", {{"input_ids", at::ones({4, 9}, at::kLong)}, {"labels", at::zeros({4}, at::kLong)}});
  EXPECT_THAT(error(entry), HasSubstr("pad the rows of all files to the same length"));
  std::filesystem::remove(folder() / "other.safetensors");

  Words few = kBert;
  few.back() = "model.config.max_position_embeddings=8";
  EXPECT_THAT(error(entry, few), HasSubstr("have 12 tokens, and BertForSequenceClassification has positions for 8"));

  std::filesystem::resize_file(folder() / "all.safetensors", 2000);
  EXPECT_THAT(error(entry), HasSubstr("all.safetensors"));
}

TEST_F(Examples, ClassifierStartsFromABaseModelWithANewHead) {
  write("all.safetensors", with(padded_ids(), "labels", at::ones({kRows, kSeq}, at::kLong)));
  ASSERT_EQ(train("base", options("BertForMaskedLM", kBert)).status, 0);
  const auto exported = folder_.path() / "exported";
  ASSERT_EQ(modrun({"export", (run_folder("base") / "checkpoints").string(), exported.string()}).status, 0);

  write("all.safetensors", parities());
  Words more = kBert;
  more.insert(more.end(), {"--set", "model.checkpoint=" + exported.string()});
  const auto run = train("classifier", options("BertForSequenceClassification", more));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output,
              HasSubstr("holds a BertForMaskedLM: parameters that only BertForSequenceClassification has "
                        "are initialized: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight, "
                        "classifier.bias"));

  Words deeper = more;
  deeper.insert(deeper.end(), {"--set", "model.config.num_hidden_layers=3"});
  EXPECT_THAT(error("BertForSequenceClassification", deeper), HasSubstr("lacks \"bert.encoder.layer.2."));

  // A classifier starts from the body of one with other labels.
  const auto of_two = folder_.path() / "of-two";
  ASSERT_EQ(modrun({"export", (run_folder("classifier") / "checkpoints").string(), of_two.string()}).status, 0);
  Words other = kBert;
  other.insert(other.end(), {"--set", "model.checkpoint=" + of_two.string(), "--set", "model.config.num_labels=3"});
  const auto of_three = train("three", options("BertForSequenceClassification", other), {"--nproc-per-node", "2"});
  ASSERT_EQ(of_three.status, 0) << of_three.output;
  EXPECT_THAT(of_three.output,
              HasSubstr("has another number of labels; initialized: classifier.weight, classifier.bias"));
}

// As in files of older releases.
TEST_F(Examples, IgnoresAndReportsForeignHeadsOnce) {
  write("all.safetensors", with(padded_ids(), "labels", at::ones({kRows, kSeq}, at::kLong)));
  const Words entry = options("BertForMaskedLM", kBert);
  ASSERT_EQ(train("base", entry).status, 0);
  const auto exported = folder_.path() / "exported";
  ASSERT_EQ(modrun({"export", (run_folder("base") / "checkpoints").string(), exported.string()}).status, 0);
  Tensors tensors;
  {
    const SafetensorsFile file(exported / "model.safetensors");
    for (const auto& [name, header] : file.tensors()) tensors.emplace_back(name, file.tensor(name).clone());
  }
  tensors.emplace_back("cls.seq_relationship.weight", at::ones({2, 32}));
  std::filesystem::remove(exported / "model.safetensors");
  write_safetensors(exported / "model.safetensors", tensors);

  const std::string weights = exported.string(), data = (folder() / "all.safetensors").string();
  const auto runs = [&](const Words& words) {
    const auto run = modrun(words);
    EXPECT_EQ(run.status, 0) << run.output;
    const std::string note =
        weights + " holds cls.seq_relationship.weight, which BertForMaskedLM does not have: ignored\n";
    const size_t found = run.output.find(note);
    EXPECT_NE(found, std::string::npos) << run.output;
    EXPECT_EQ(run.output.find("seq_relationship", found + note.size()), std::string::npos) << run.output;
  };
  runs(training("again", modular::with(entry, {"--set", "model.checkpoint=" + weights}), {"--nproc-per-node", "2"}));
  runs({"forward", "--checkpoint", weights, "--inputs", data, "--outputs",
        (folder_.path() / "out.safetensors").string()});
  runs(modular::with({"predict", "--checkpoint", weights, "--inputs", data, "--outputs",
                      (folder_.path() / "predicted.safetensors").string()},
                     {"--set", "model.entry=BertForMaskedLM", "--set", "train.dir=none"}));
  runs({"import", weights, (folder_.path() / "imported").string()});
}

}  // namespace
}  // namespace modular
