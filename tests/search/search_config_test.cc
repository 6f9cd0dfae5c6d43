// Parsing of [search], and its error messages.
#include "runtime/search/search_config.h"

#include <gmock/gmock.h>

#include "runtime/model/config.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kKnown = {"optim.lr", "optim.name", "train.batch_size", "train.dir",
                                         "model.config.hidden_size"};

class Search : public testing::Test {
 protected:
  SearchConfig read(const std::string& text, const std::vector<std::string>& settings = {}) const {
    return read_search_config(folder_.write("search.toml", text), settings, kKnown);
  }
  std::string error(const std::string& text, const std::vector<std::string>& settings = {}) const {
    return get_message<ConfigError>([&] { read(text, settings); });
  }
  std::string space_error(const std::string& space) const { return error("[search.space]\n" + space); }

  mutable TemporaryFolder folder_;
};

TEST_F(Search, IsReadWithItsSpaceInEitherSpelling) {
  const SearchConfig config = read(R"(
[search]
objective = ["ndcg@20", "memory_peak", "samples_per_second"]
trials = 7
[search.space]
"optim.lr" = { low = 1e-6, high = 1e-4, log = true }
optim.name = ["adamw", "sgd"]
train.batch_size = { low = 16, high = 64, step = 16 }
)",
                                   {"search.seed=5", "train.steps=3"});
  EXPECT_EQ(config.trials, 7);
  EXPECT_EQ(config.seed, 5u);
  ASSERT_EQ(config.space.size(), 3u);
  EXPECT_EQ(config.space[0].key, "optim.lr");
  EXPECT_TRUE(config.space[0].log);
  EXPECT_FALSE(config.space[0].integral);
  EXPECT_THAT(config.space[1].choices, ElementsAre("'adamw'", "'sgd'"));
  EXPECT_EQ(config.space[2].count(), 4);
  EXPECT_TRUE(config.space[2].integral);
  ASSERT_EQ(config.objectives.size(), 3u);
  EXPECT_FALSE(config.objectives[0].minimize);
  EXPECT_TRUE(config.objectives[1].minimize);
  EXPECT_FALSE(config.objectives[2].minimize);
}

TEST_F(Search, ReportsTheLocationOfAnInvalidRange) {
  EXPECT_THAT(
      space_error("optim.lr = { low = 1e-4, high = 1e-6 }"),
      HasSubstr("search.toml:2:12: optim.lr: the range from 0.0001 to 1e-06 is empty: its low is above its high"));
  EXPECT_THAT(space_error("optim.lr = { low = 0, high = 1, log = true }"),
              HasSubstr("a range with log = true must lie above 0, but begins at 0"));
  EXPECT_THAT(space_error("optim.lr = { low = 1 }"), HasSubstr("a range needs low and high"));
  EXPECT_THAT(space_error("optim.lr = { low = 1, high = '2' }"), HasSubstr("high must be a number, but is the string"));
  EXPECT_THAT(space_error("optim.lr = { low = 1, high = 2, steps = 3 }"), HasSubstr("log = true or false, not steps"));
  EXPECT_THAT(space_error("optim.lr = { low = nan, high = 2.0 }"), HasSubstr("is empty"));
  EXPECT_THAT(space_error("optim.lr = { low = 1, high = 9223372036854775807 }"), HasSubstr("must lie within ±2^53"));
  EXPECT_THAT(space_error("optim.lr = { low = 0.0, high = 1.0, step = 1e-300 }"), HasSubstr("more than 2^53 values"));
  EXPECT_THAT(space_error("optim.lr = [1]\n'optim.lr' = [2]"), HasSubstr("search.space has optim.lr twice"));
  EXPECT_THAT(space_error("train.dir = ['a']"),
              HasSubstr("train.dir cannot be searched, because each trial has its own folder"));
  EXPECT_THAT(space_error("optim.lr = []"), HasSubstr("optim.lr must be an array of the values to try"));
  EXPECT_THAT(space_error("optim.lr = 3"), HasSubstr("but is the integer 3"));
}

TEST_F(Search, SuggestsTheNearestKey) {
  EXPECT_THAT(space_error("optim.rl = [1]"),
              HasSubstr("search.toml:2:12: search.space: unknown key optim.rl: did you mean optim.lr?"));
  EXPECT_THAT(error("[search]\ntrails = 3\n[search.space]\noptim.lr = [1]"),
              HasSubstr("unknown key search.trails: did you mean search.trials?"));
}

TEST_F(Search, RequiresASpaceAndOneDirectionPerObjective) {
  EXPECT_THAT(error("[train]\nsteps = 3"), HasSubstr("[search] is missing"));
  EXPECT_THAT(error("[search]\ntrials = 3"), HasSubstr("search.space is empty"));
  const std::string space = "\n[search.space]\noptim.lr = [1, 2]";
  EXPECT_THAT(error("[search]\ndirection = ['minimize', 'maximize']" + space),
              HasSubstr("search.direction has 2 entries, and search.objective 1: give one direction per objective"));
  EXPECT_THAT(error("[search]\ndirection = 'down'" + space), HasSubstr("it must be minimize or maximize"));
  EXPECT_THAT(error("[search]\nbackend = 'sigopt'" + space),
              HasSubstr("search.backend is \"sigopt\": it must be random, grid, optuna or ray"));
  EXPECT_THAT(error("[search]\nbackend = 'grid'\n[search.space]\noptim.lr = {low = 0.1, high = 0.2}"),
              HasSubstr("a grid cannot count the values of optim.lr: give it a step"));
}

TEST_F(Search, ACommandNeedsItsObjectiveAndADirection) {
  const std::string space = "\n[search.space]\noptim.lr = [1, 2]";
  const SearchConfig config = read("[search]\nobjective_command = './score'\ndirection = 'maximize'" + space);
  ASSERT_EQ(config.objectives.size(), 1u);
  EXPECT_EQ(config.objectives[0].name, "command");
  EXPECT_FALSE(config.objectives[0].minimize);
  EXPECT_THAT(error("[search]\nobjective_command = './score'" + space),
              HasSubstr("whose direction is unknown: set search.direction"));
  EXPECT_THAT(error("[search]\nobjective = 'command'\ndirection = 'minimize'" + space),
              HasSubstr("set search.objective_command to the command that prints its value"));
  EXPECT_THAT(error("[search]\nobjective = 'seconds'\nobjective_command = './score'" + space),
              HasSubstr("and search.objective is seconds: add command to search.objective"));
  EXPECT_EQ(to_identity(config_from_identity(to_identity(config))), to_identity(config));
}

TEST_F(Search, RejectsKeysOfAnotherBackend) {
  const std::string space = "\n[search.space]\noptim.lr = [1, 2]";
  EXPECT_THAT(error("[search]\nbackend = 'ray'\npruner = 'hyperband'" + space),
              HasSubstr("search.pruner is \"hyperband\": it must be median or asha with search.backend = \"ray\""));
  EXPECT_THAT(error("[search]\nbackend = 'ray'\nstorage = 'sqlite:///a'" + space),
              HasSubstr("search.storage is \"sqlite:///a\", which only Optuna has, and search.backend is ray"));
  EXPECT_THAT(error("[search]\nstudy = 'shared'" + space),
              HasSubstr("search.study is \"shared\", which only Optuna has"));
  EXPECT_THAT(error("[search]\nbackend = 'optuna'\nstudy = 'shared'" + space),
              HasSubstr("set search.storage to its database"));
  for (const char* backend : {"optuna", "ray"}) {
    const SearchConfig config =
        read(std::string("[search]\nbackend = '") + backend + "'\nsampler = 'random'\npruner = 'median'" + space);
    EXPECT_EQ(to_identity(config_from_identity(to_identity(config))), to_identity(config));
  }
}

TEST_F(Search, AGridIsCompleteUnlessFewerTrialsAreRequested) {
  const std::string grid = "[search]\nbackend = 'grid'\n[search.space]\noptim.lr = {low = 1, high = 24}\n";
  EXPECT_EQ(read(grid).trials, 24);
  EXPECT_EQ(read(grid, {"search.trials=7"}).trials, 7);
  EXPECT_EQ(read(grid, {"search.trials=70"}).trials, 24);
  EXPECT_EQ(read("[search.space]\noptim.lr = [1e-5]").trials, 20);
  EXPECT_THAT(read("[search.space]\noptim.lr = [1e-5, 3.0]").space[0].choices, ElementsAre("1e-05", "3.0"));
}

TEST_F(Search, LimitsTheNumberOfTrials) {
  const std::string space = "[search.space]\noptim.lr = {low = 1, high = 1000000}\n";
  EXPECT_EQ(read(space, {"search.trials=100000"}).trials, 100'000);
  EXPECT_THAT(error(space, {"search.trials=100001"}),
              HasSubstr("search.trials is 100001: a study with 1 objective has at most 100000 trials"));
  EXPECT_THAT(error("[search]\nobjective = ['seconds', 'memory_peak']\n" + space, {"search.trials=10001"}),
              HasSubstr("a study with 2 objectives has at most 10000 trials"));
  EXPECT_THAT(error("[search]\nbackend = 'grid'\n" + space), HasSubstr("search.trials is 1000000 on this grid"));
}

TEST_F(Search, ARunFolderMustNotNameAProgramDatabaseOrFolder) {
  for (const auto& [key, names] : {std::pair("storage", "a database, and what the folder of a run names is not opened"),
                                   {"study", "a study in a database, and"},
                                   {"dir", "a folder, and what the folder of a run names is not written to"},
                                   {"python", "a program, and what the folder of a run names is not run"}}) {
    const auto file = folder_.write("config.toml", std::string("[search]\nbackend = 'optuna'\n") + key +
                                                       " = 'mysql://there/a'\n[search.space]\noptim.lr = [1, 2]\n");
    EXPECT_THAT(get_message<ConfigError>([&] { read_search_config(file, {}, kKnown, ConfigSource::run_folder); }),
                AllOf(HasSubstr("config.toml:3:"), HasSubstr(std::string("search.") + key + " names " + names),
                      HasSubstr("pass it with --set, or add --trust-folder")));
    const std::vector<std::string> mine = {std::string("search.") + key + "='mine'", "search.storage='sqlite:///mine'"};
    EXPECT_EQ(read_search_config(file, mine, kKnown, ConfigSource::run_folder).storage, "sqlite:///mine");
  }
}

TEST_F(Search, ErrorsQuoteTheCommandLine) {
  const std::string space = "[search]\n[search.space]\noptim.lr = [1, 2]";
  EXPECT_THAT(error(space, {"search.trials"}), HasSubstr("--set search.trials: expected key=value"));
  EXPECT_THAT(error(space, {"search.trialz=3"}), HasSubstr("--set search.trialz=3: unknown key search.trialz"));
  EXPECT_THAT(error(space, {"search.dir="}), HasSubstr("--set search.dir=: search.dir is empty"));
}

TEST_F(Search, IdentityDependsOnSpaceAndSeed) {
  const std::string one = to_identity(read("[search.space]\noptim.lr = {low = 1e-6, high = 1e-4}"));
  EXPECT_EQ(one, to_identity(read("[search]\ntrials = 3\n[search.space]\noptim.lr = {low = 1e-6, high = 1e-4}")));
  EXPECT_NE(one, to_identity(read("[search.space]\noptim.lr = {low = 1e-6, high = 1e-3}")));
  EXPECT_NE(one, to_identity(read("[search]\nseed = 3\n[search.space]\noptim.lr = {low = 1e-6, high = 1e-4}")));
}

}  // namespace
}  // namespace modular
