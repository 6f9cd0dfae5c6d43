// The best trial, the Pareto front, and the files of a study.
#include "runtime/search/study.h"
#include "runtime/files/open_file.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/config/config.h"
#include "runtime/model/config.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kBase = "[train]\nsteps = 10\n";

Trial trial(int64_t number, std::vector<double> values) {
  return {.number = number, .settings = {{"optim.lr", "0.1"}}, .failure = {}, .values = std::move(values)};
}

SearchConfig config_in(const std::filesystem::path& folder, std::vector<Objective> objectives) {
  SearchConfig config;
  config.dir = folder / "study";
  config.objectives = std::move(objectives);
  config.space = {{.key = "optim.lr", .choices = {"0.1"}}};
  return config;
}

std::vector<int64_t> numbers(const std::vector<const Trial*>& trials) {
  std::vector<int64_t> result;
  for (const Trial* trial : trials) result.push_back(trial->number);
  return result;
}

TEST(Study, TheBestTrialHasTheLowestNumberAmongTiesAndHasNotFailed) {
  const TemporaryFolder folder;
  Study study(config_in(folder.path(), {{"accuracy", /*minimize=*/false}}), kBase, /*resumes=*/false);
  EXPECT_EQ(study.best(), nullptr);
  study.add({.number = 0, .settings = {}, .failure = "its run failed with status 1", .values = {}});
  EXPECT_EQ(study.best(), nullptr);
  study.add(trial(1, {0.5}));
  study.add(trial(3, {0.7}));  // concurrent with trial 2, and faster
  study.add(trial(2, {0.7}));
  EXPECT_EQ(study.best()->number, 2);
}

TEST(Study, ResumesOneOfAnEarlierVersion) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  const std::string base = "[data]\nvalidation_every = 4\nvalidation = []\nvalidation_fraction = 0.0\n";
  {
    Study(config, base, /*resumes=*/false).add(trial(0, {2.5}));
  }
  const auto file = folder.path() / "study/trials.jsonl";
  std::string text = read_file(file);
  const auto replace = [&](const std::string& now, const std::string& before) {
    for (size_t at; (at = text.find(now)) != std::string::npos;) text.replace(at, now.size(), before);
  };
  replace("val_loss", "held_out_loss"), replace("validation_every", "held_out_every");
  replace("validation_fraction", "held_out_part"), replace("validation", "held_out");
  std::ofstream(file) << text;
  EXPECT_EQ(read_study(folder.path() / "study").config.objectives[0].name, "val_loss");
  const Study resumed(config, base, /*resumes=*/true);
  ASSERT_NE(resumed.best(), nullptr);
  EXPECT_EQ(resumed.best()->values[0], 2.5);
}

TEST(Study, TheBestConfigHasTheSearchsProgramsNotTheTrialsFolders) {
  const TemporaryFolder folder;
  Study study(config_in(folder.path(), {{"accuracy", /*minimize=*/false}}), kBase, /*resumes=*/false,
              {"metrics.python=\"/mine\""});
  study.add(trial(0, {0.5}));
  folder.write("study/trials/0000/config.toml",
               "[model]\nentry = 'llama'\n[sample]\npython = '/evil'\n[metrics]\npython = '/evil'\n");
  study.write_winners();
  const RunConfig best = read_run_config(folder.path() / "study/best.toml", {});
  EXPECT_EQ(best.sample.python, "python3");
  EXPECT_EQ(best.metrics.python, "/mine");
}

TEST(Study, RejectsLinksInItsFolder) {
  const TemporaryFolder folder;
  folder.write("outside/0000/config.toml", "");
  std::filesystem::create_directories(folder.path() / "study");
  std::filesystem::create_symlink(folder.path() / "outside", folder.path() / "study/trials");
  const SearchConfig config = config_in(folder.path(), {{"accuracy", /*minimize=*/false}});
  EXPECT_THAT(get_message<std::runtime_error>([&] { Study(config, kBase, false); }),
              HasSubstr("study/trials belongs to another study"));
  std::filesystem::remove(folder.path() / "study/trials");
  Study study(config, kBase, false);
  std::filesystem::create_symlink(folder.path() / "outside/0000", folder.path() / "study/trials/0000");
  EXPECT_THAT(get_message<std::runtime_error>([&] { study.run_folder(0); }),
              HasSubstr("trials/0000 is a symbolic link to "));
}

TEST(Study, RejectsLinksOfHelperFiles) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  Study(config, kBase, /*resumes=*/false);
  const auto outside = folder.write("outside", "mine");
  for (const char* name :
       {"study.db", "study.db-journal", "study.db-wal", "study.db-shm", "ray.jsonl", "ray.jsonl.new"}) {
    std::filesystem::create_symlink(outside, config.dir / name);
    EXPECT_THAT(get_message<std::runtime_error>([&] { Study(config, kBase, /*resumes=*/true); }),
                HasSubstr(std::string(name) + " is a symbolic link to "));
    std::filesystem::remove(config.dir / name);
  }
}

// SQLite deletes the named file after rolling back the journal.
TEST(Study, RejectsASqliteJournalThatNamesAnotherFile) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  Study(config, kBase, /*resumes=*/false);
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  folder.write("study/study.db-journal", magic + std::string(600, '\0'));
  EXPECT_EQ(Study(config, kBase, /*resumes=*/true).trials().size(), 0u) << "as left by a killed Optuna";
  folder.write("study/study.db-journal", magic + std::string(600, '\0') + "/home/me/thesis" + magic);
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, /*resumes=*/true); }),
              HasSubstr("study/study.db-journal names another file, which SQLite would delete"));
}

/// Appends `count` trials to a study's file.
void write_trials(const SearchConfig& config, int64_t count) {
  std::ofstream out(config.dir / "trials.jsonl", std::ios::app);
  for (int64_t number = 0; number < count; ++number)
    out << R"({"trial":)" << number
        << R"(,"settings":{"optim.lr":"0.1"},"values":{"val_loss":1,"seconds":1},"seconds":1})" << '\n';
}

TEST(Study, ReadsTheMaximumNumberOfTrialsInSecondsAndRejectsOneMore) {
  for (const std::vector<Objective>& objectives :
       {std::vector<Objective>{{"val_loss", true}}, {{"val_loss", true}, {"seconds", true}}}) {
    const TemporaryFolder folder;
    const SearchConfig config = config_in(folder.path(), objectives);
    Study(config, kBase, /*resumes=*/false);
    const int64_t most = most_trials(objectives.size());
    write_trials(config, most);
    const StudyRecord record = read_study(config.dir);
    EXPECT_EQ(std::ssize(record.trials), most);
    if (objectives.size() > 1) EXPECT_EQ(std::ssize(pareto_front(record.trials, objectives)), most);
    write_trials(config, 1);
    EXPECT_THAT(get_message<ConfigError>([&] { read_study(config.dir); }),
                HasSubstr("trials.jsonl:" + std::to_string(most + 2) + ": has more than " + std::to_string(most)));
  }
}

TEST(Study, ReadsATrialWithManyKeysInSeconds) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  Study(config, kBase, /*resumes=*/false);
  std::ofstream out(config.dir / "trials.jsonl", std::ios::app);
  out << R"({"trial":0,"settings":{)";
  for (int key = 0; key < 200'000; ++key) out << '"' << key << R"(":"1",)";
  out << R"("optim.lr":"0.1"},"values":{"val_loss":1},"seconds":1})" << '\n' << std::flush;
  EXPECT_EQ(read_study(config.dir).trials.at(0).settings.size(), 200'001u);
}

TEST(Study, RejectsADeeplyNestedHeader) {
  const TemporaryFolder folder;
  folder.write("trials.jsonl", R"({"study":)" + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}\n");
  EXPECT_THAT(get_message<ConfigError>([&] { read_study(folder.path()); }),
              HasSubstr("trials.jsonl:1: invalid study header"));
}

TEST(Study, SeveralObjectivesGiveAParetoFront) {
  const TemporaryFolder folder;
  Study study(config_in(folder.path(), {{"val_loss", true}, {"samples_per_second", false}}), kBase, false);
  study.add(trial(0, {1.0, 10.0}));
  study.add(trial(1, {1.0, 12.0}));  // dominates 0
  study.add(trial(2, {0.5, 1.0}));
  study.add(trial(3, {2.0, 11.0}));  // dominated by 1
  study.add(trial(4, {0.5, 1.0}));   // ties with 2
  EXPECT_THAT(numbers(study.pareto()), ElementsAre(1, 2, 4));
}

TEST(Study, CanBeReadWhileASearchRuns) {
  const TemporaryFolder folder;
  SearchConfig config = config_in(folder.path(), {{"val_loss", true}, {"samples_per_second", false}});
  config.backend = "optuna", config.sampler = "gp", config.seed = 7;
  config.space = {{.key = "optim.lr", .low = 0.05, .high = 1.0, .log = true},
                  {.key = "optim.name", .choices = {"'sgd'", "'adamw'"}},
                  {.key = "train.steps", .low = 2, .high = 8, .step = 2, .integral = true}};
  Study study(config, kBase, /*resumes=*/false);
  study.add({.number = 3,
             .settings = {{"optim.lr", "0.1"}, {"optim.name", "'sgd'"}, {"train.steps", "4"}},
             .failure = "",
             .values = {1.0, 2.0},
             .seconds = 5.0});
  std::ofstream(config.dir / "trials.jsonl", std::ios::app) << "{\"trial\":4,";
  const StudyRecord record = read_study(config.dir);
  EXPECT_EQ(to_identity(record.config), to_identity(config));
  ASSERT_EQ(record.trials.size(), 1u) << "ignores the incomplete line";
  EXPECT_EQ(record.trials[0].number, 3);
  EXPECT_EQ(record.trials[0].settings, study.trials()[0].settings);
  EXPECT_THAT(record.trials[0].values, ElementsAre(1.0, 2.0));
  EXPECT_EQ(record.trials[0].seconds, 5.0);
}

TEST(Study, ResumesWithTheTrialsThatHaveEnded) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  {
    Study study(config, kBase, false);
    study.add(trial(0, {1.25}));
    study.add({.number = 1, .settings = {{"optim.lr", "0.1"}}, .failure = "why", .values = {}});
    study.add(trial(2, {0.1}));
  }
  const auto file = config.dir / "trials.jsonl";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5);  // killed while writing
  {
    Study study(config, kBase, true);
    ASSERT_EQ(study.trials().size(), 2u);
    EXPECT_EQ(study.trials()[0].values, std::vector{1.25});
    EXPECT_EQ(study.trials()[1].failure, "why");
    study.add(trial(2, {0.1}));
  }
  EXPECT_EQ(Study(config, kBase, true).trials().size(), 3u);
}

TEST(Study, RejectsADamagedFileAndLeavesItUnchanged) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  {
    Study study(config, kBase, false);
    for (int64_t number = 0; number < 3; ++number) study.add(trial(number, {1.0}));
  }
  const auto file = config.dir / "trials.jsonl";
  std::string text = read_file(file);
  text.erase(text.find("\"trial\":1") + 3, 4);
  write_file(file, text);
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, true); }),
              HasSubstr("trials.jsonl:3: not a trial of this study"));
  EXPECT_EQ(read_file(file), text);
}

TEST(Study, IsLockedByOneProcess) {
  const TemporaryFolder folder;
  const SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  const Study study(config, kBase, false);
  EXPECT_THAT(get_message<std::runtime_error>([&] { Study(config, kBase, true); }), HasSubstr("is in use by process"));
}

TEST(Study, RejectsADifferentSpaceOrAnExistingStudy) {
  const TemporaryFolder folder;
  SearchConfig config = config_in(folder.path(), {{"val_loss", true}});
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, true); }), HasSubstr("holds no study to resume"));
  Study(config, kBase, false);
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, false); }), HasSubstr("resume it with --resume"));
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase + "seed = 2\n", true); }),
              HasSubstr("objective or base config"));
  config.space[0].choices.emplace_back("0.2");
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, true); }),
              HasSubstr("holds a study with a different space"));
  std::filesystem::remove(config.dir / "trials.jsonl");
  EXPECT_THAT(get_message<ConfigError>([&] { Study(config, kBase, false); }),
              HasSubstr("trials belongs to another study"))
      << "its runs would be resumed";
}

}  // namespace
}  // namespace modular
