// modrun search: trials on two ranks, whose best trains again to the same loss; goes on where it was killed.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class SearchCommand : public ModrunTest {
 protected:
  fs::path study() const { return folder_.path() / "study"; }

  /// The tests' Llama with a search.
  fs::path config(const std::string& search) const {
    std::ifstream in(config_);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    return folder_.write("search.toml",
                         text + "[checkpoint]\nevery = -1\n[search]\ndir = '" + study().string() + "'\n" + search);
  }

  Finished search(const std::string& text, const Words& more = {}, int ranks = 2) const {
    Words words = {"--nproc-per-node", std::to_string(ranks), "search", config(text).string()};
    words.insert(words.end(), more.begin(), more.end());
    return modrun(words);
  }

  std::vector<json> trials() const {
    std::vector<json> found;
    std::ifstream in(study() / "trials.jsonl");
    for (std::string line; std::getline(in, line);)
      if (auto one = json::parse(line); one.contains("trial")) found.push_back(std::move(one));
    return found;
  }

  static double held_out_loss(const fs::path& run) {
    std::ifstream in(run / "metrics.jsonl");
    double loss = 0.0;
    for (std::string line; std::getline(in, line);)
      if (const auto one = json::parse(line); one.value("event", "") == "evaluation") loss = one["held_out_loss"];
    return loss;
  }
};

constexpr const char* kSpace =
    "[search.space]\n'optim.lr' = { low = 1e-4, high = 1e-1, log = true }\ntrain.batch_size = [4, 8]\n";

TEST_F(SearchCommand, TheBestOfItsTrialsTrainsAgainToTheSameLoss) {
  const auto run = search(std::string("trials = 4\n") + kSpace);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  const auto best =
      std::ranges::min_element(all, {}, [](const json& one) { return one["values"]["held_out_loss"].get<double>(); });
  for (const json& one : all)
    EXPECT_EQ(held_out_loss(study() / fmt::format("trials/{:04}", one["trial"].get<int64_t>())),
              one["values"]["held_out_loss"]);
  EXPECT_THAT(run.output, HasSubstr(fmt::format("the best is trial {}", (*best)["trial"].get<int64_t>() + 1)));
  const auto again = modrun({"--nproc-per-node", "2", "train", (study() / "best.toml").string()});
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(held_out_loss(study() / "best"), (*best)["values"]["held_out_loss"]) << "bit by bit";
}

TEST_F(SearchCommand, ATrialThatFailsIsRecordedAndTheStudyGoesOn) {
  const auto run = search(
      "trials = 3\nbackend = 'grid'\n[search.space]\noptim.lr = [1e30, 1e-3, 1e-2]\noptim.max_grad_norm = [0]\n"
      "optim.warmup_steps = [0]\n");
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["failure"], "its run failed with status 1");
  EXPECT_TRUE(all[1].contains("values"));
  EXPECT_TRUE(all[2].contains("values"));
}

TEST_F(SearchCommand, GoesOnAfterAKillWithWhatItWouldHaveDrawn) {
  ASSERT_EQ(search(std::string("trials = 5\n") + kSpace).status, 0);
  const auto undisturbed = trials();
  fs::remove_all(study());
  // Killed with all that it has started, once the second trial has ended.
  const std::string killed = fmt::format(
      "setsid {} --nproc-per-node 2 search {} >{}/out 2>&1 & pid=$!; "
      "until [ \"$(grep -c '\"trial\"' {}/trials.jsonl 2>/dev/null)\" = 2 ]; do kill -0 $pid || exit 1; done; kill -9 "
      "-- -$pid",
      MODRUN, config(std::string("trials = 5\n") + kSpace).string(), folder_.path().string(), study().string());
  ASSERT_EQ(std::system(("bash -c '" +
                         [&] {
                           std::string text;
                           for (const char c : killed) text += c == '\'' ? "'\\''" : std::string(1, c);
                           return text;
                         }() +
                         "'")
                            .c_str()),
            0);
  const auto refused = search(std::string("trials = 5\n") + kSpace);
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("go on with it by --resume"));
  const auto run = search(std::string("trials = 5\n") + kSpace, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["settings"], undisturbed[i]["settings"]);
    EXPECT_EQ(all[i]["values"], undisturbed[i]["values"]) << "bit by bit";
  }
}

TEST_F(SearchCommand, OfSeveralObjectivesEachThatIsNotBeatenIsAConfig) {
  const auto run = search(std::string("trials = 3\nobjective = ['held_out_loss', 'memory_peak']\n") + kSpace, {}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(study() / "pareto")) {
    ++files;
    EXPECT_EQ(modrun({"settings", entry.path().string()}).status, 0);
  }
  EXPECT_GT(files, 0);
  EXPECT_FALSE(fs::exists(study() / "best.toml"));
}

TEST_F(SearchCommand, ValuesThatCannotBeAreRefusedBeforeATrial) {
  const auto refused = search("[search.space]\noptim.name = ['adamw', 'adam']\n");
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("search.space has optim.name = 'adam'"));
  EXPECT_THAT(refused.output, HasSubstr("it must be one of adamw"));
  EXPECT_FALSE(fs::exists(study()));
}

}  // namespace
}  // namespace modular
