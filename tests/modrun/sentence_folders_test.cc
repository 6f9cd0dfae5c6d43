// Folders that Sentence Transformers wrote are embedded, trained and exported as that library does: sentence_folders.py
// makes them, and says what it finds.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr double kTolerance = 1e-5;  // of the largest number of embeddings, where that is above 1

class SentenceFolders : public testing::Test {
 protected:
  /// What `sentence_folders.py make` made; tests write nothing there.
  static fs::path made() { return SENTENCE_FOLDERS; }

  static std::vector<std::string> cases() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(made()))
      if (fs::exists(entry.path() / "in.safetensors")) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    EXPECT_GE(names.size(), 10u);
    return names;
  }

  static at::Tensor embeddings(const fs::path& file) { return SafetensorsFile(file).tensor("embeddings").clone(); }

  static void expect_near(const at::Tensor& found, const at::Tensor& wanted, const std::string& what) {
    ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
    const double scale = std::max(1.0, wanted.abs().max().item<double>());
    EXPECT_LE((found - wanted).abs().max().item<double>(), kTolerance * scale) << what;
  }

  /// The ids and masks of prepared data are those of a file of `sentence_folders.py make`.
  static void expect_columns(const fs::path& prepared, const fs::path& library) {
    const SafetensorsFile found(prepared / "part-00000.safetensors"), wanted(library);
    for (const std::string key : {"input_ids", "attention_mask"})
      for (int64_t column = 0; column < 2; ++column) {
        const at::Tensor ids = found.tensor(key).to(at::kInt).select(1, column);
        const at::Tensor theirs = wanted.tensor(key + std::to_string(column));
        const at::Tensor padded = at::constant_pad_nd(theirs, {0, ids.size(1) - theirs.size(1)});
        EXPECT_TRUE(at::equal(ids, padded)) << prepared << " " << key << "\n" << ids << "\n" << padded;
      }
  }

  Finished predict(const std::string& name, const fs::path& weights, const fs::path& outputs) const {
    return modrun({"predict", "--checkpoint", weights.string(), "--inputs", (made() / name / "in.safetensors").string(),
                   "--outputs", outputs.string()});
  }

  TemporaryFolder folder_;
};

TEST_F(SentenceFolders, AreEmbeddedAsByTheLibrary) {
  for (const std::string& name : cases()) {
    const fs::path outputs = folder_.path() / (name + ".safetensors");
    const auto run = predict(name, made() / name / "model", outputs);
    ASSERT_EQ(run.status, 0) << name << "\n" << run.output;
    expect_near(embeddings(outputs), embeddings(made() / name / "embeddings.safetensors"), name);
  }
}

// A step of SGD: gradients of the pooling, of the layers after it and of what is below.
TEST_F(SentenceFolders, LearnAndAreExportedAsByTheLibrary) {
  for (const std::string& name : cases()) {
    const fs::path place = folder_.path() / name, run = folder_.path() / "runs" / name;
    fs::create_directories(place);
    fs::copy_file(made() / name / "in.safetensors", place / "in.safetensors");
    Words words = {"train"};
    for (const std::string& setting :
         {"train.dir=" + run.string(), "model.checkpoint=" + (made() / name / "model").string(),
          "data.paths=['" + (made() / name / "pairs.safetensors").string() + "']", std::string("data.format=examples"),
          std::string("train.batch_size=6"), std::string("train.steps=1"), std::string("optim.name=sgd"),
          std::string("optim.lr=0.02"), std::string("optim.momentum=0"), std::string("optim.nesterov=false"),
          std::string("optim.schedule=constant"), std::string("optim.max_grad_norm=0"),
          std::string("optim.weight_decay=0"), std::string("eval.samples=0")})
      words.insert(words.end(), {"--set", setting});
    const auto trained = modrun(words);
    ASSERT_EQ(trained.status, 0) << name << "\n" << trained.output;
    const auto run_again = predict(name, run / "checkpoints", place / "predicted.safetensors");
    ASSERT_EQ(run_again.status, 0) << name << "\n" << run_again.output;
    const at::Tensor found = embeddings(place / "predicted.safetensors");
    const at::Tensor wanted = embeddings(made() / name / "trained.safetensors");
    if (name == "roberta-dropout") {
      // The library trained it without its dropout, which draws other elements there than here.
      EXPECT_EQ(found.sizes(), wanted.sizes());
      EXPECT_GT((found - wanted).abs().max().item<double>(), 100 * kTolerance) << "nothing was dropped";
    } else {
      expect_near(found, wanted, name);
    }
    fs::create_directory_symlink(made() / name / "model", place / "read");
    const auto exported = modrun({"export", (run / "checkpoints").string(), (place / "exported").string()});
    ASSERT_EQ(exported.status, 0) << name << "\n" << exported.output;
  }
  const std::string check =
      "'" PARITY_PYTHON "' '" SENTENCE_FOLDERS_PROGRAM "' check '" + folder_.path().string() + "' 2>&1";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

// Prompts, the length that texts are cut to, and lower case.
TEST_F(SentenceFolders, TextsBecomeTheIdsOfTheLibrary) {
  const fs::path texts = made() / "texts";
  const Words prepare = {"prepare",      (texts / "rows.jsonl").string(),
                         "--checkpoint", (texts / "model").string(),
                         "--text",       "question,answer",
                         "--python",     PARITY_PYTHON};
  const std::vector<std::pair<std::string, Words>> ways = {
      {"usual", {}}, {"both", {"--prompt-names", "query,document"}}, {"none", {"--prompt-names", "document"}}};
  for (const auto& [way, names] : ways) {
    const fs::path out = folder_.path() / way;
    const auto run = modrun(with(with(prepare, {"--out", out.string()}), names));
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, testing::HasSubstr("texts are cut to 9 ids"));
    expect_columns(out, texts / (way + ".safetensors"));
    EXPECT_TRUE(fs::exists(out / "tokenizer" / "config_sentence_transformers.json"));
  }
  for (const auto& [folder, names] : std::vector<std::pair<std::string, std::string>>{
           {"older", "usual,usual"}, {"older/0_Transformer", "usual,usual"}, {"left_out", "query,document"}}) {
    const fs::path out = folder_.path() / "of" / folder;
    fs::create_directories(out.parent_path());
    Words words = with(prepare, {"--out", out.string(), "--prompt-names", names});
    if (folder == "older/0_Transformer")
      words.insert(words.end(), {"--tokenizer", (texts / folder).string()});
    else
      words[3] = (texts / folder).string();
    const auto run = modrun(words);
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, testing::HasSubstr("texts are cut to 9 ids"));
    EXPECT_EQ(run.output.find("pooling leaves the prompts' tokens out") != std::string::npos, folder == "left_out");
    expect_columns(out, texts / (folder == "left_out" ? "left_out.safetensors" : "usual.safetensors"));
    EXPECT_TRUE(fs::exists(out / "tokenizer" / "config_sentence_transformers.json")) << folder;
    EXPECT_TRUE(fs::exists(out / "tokenizer" / "sentence_bert_config.json")) << folder;
  }
  const auto unknown = modrun(with(prepare, {"--out", (folder_.path() / "no").string(), "--prompt-names", "passage"}));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, testing::HasSubstr("config_sentence_transformers.json has no prompt \"passage\": it has "
                                                 "document, query, usual"));
}

// A Transformer's folder alone does not say how texts are embedded; for other tasks it is a model like others.
TEST_F(SentenceFolders, TheFolderOfATransformerAloneIsRejected) {
  const fs::path older = made() / "bert-older" / "model";
  const auto run = predict("bert-older", older / "0_Transformer", folder_.path() / "out.safetensors");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, testing::HasSubstr("0_Transformer is the Transformer of " + older.string() +
                                             ", which says in modules.json how embeddings are made: name that folder"));
}

}  // namespace
}  // namespace modular
