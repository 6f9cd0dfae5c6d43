// Monitoring of a run: TensorBoard's files, traces, the summary, and hooks of a user's own program.
#include <gmock/gmock.h>
#include <signal.h>

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "runtime/metrics/event_file.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class Watch : public ModrunTest {
 protected:
  std::vector<fs::path> event_files(const std::string& name) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(run_folder(name) / "tensorboard")) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }

  /// The values that TensorBoard would show, by tag and step.
  std::map<std::string, std::map<int64_t, json>> shown(const std::string& name) const {
    const auto read = testing::end_of_program(
        testing::start_program({PYTHON, READ_EVENTS, (run_folder(name) / "tensorboard").string()}, folder_.path()));
    EXPECT_EQ(read.status, 0) << read.output;
    std::map<std::string, std::map<int64_t, json>> points;
    for (const std::string& line : read.lines) {
      const auto point = json::parse(line);
      const bool added = points[point["tag"]].emplace(point["step"], point["value"]).second;
      EXPECT_TRUE(added) << "twice: " << line;
    }
    return points;
  }

  /// Expects the event files to show exactly the steps, evaluations and sample in metrics.jsonl.
  void expect_same_as_metrics(const std::string& name) const {
    std::map<std::string, std::map<int64_t, json>> expected;
    for (const json& step : steps(name)) {
      for (const char* tag :
           {"loss", "grad_norm", "lr", "tokens_per_second", "samples_per_second", "data_wait", "memory_peak"})
        expected[tag][step["step"]] = static_cast<double>(step.at(tag).get<float>());
      if (step.contains("mfu")) expected["mfu"][step["step"]] = static_cast<double>(step["mfu"].get<float>());
    }
    for (const json& evaluation : events(name, "evaluation")) {
      expected["val_loss"][evaluation["step"]] = static_cast<double>(evaluation["val_loss"].get<float>());
      for (const auto& [metric, value] : evaluation["metrics"].items())
        expected[metric][evaluation["step"]] = static_cast<double>(value.get<float>());
    }
    for (const json& sample : events(name, "sample")) {
      std::string block = "    ";
      for (const char c : sample["text"].get<std::string>()) block += c == '\n' ? "\n    " : std::string(1, c);
      expected["sample"][sample["step"]] = block;
    }
    EXPECT_EQ(shown(name), expected);
  }

  /// Turns a finished run of 10 steps into one that crashed while writing after step 7, with a checkpoint of step 5.
  void crash_at_step_5(const std::string& name, int64_t cut_off) const {
    fs::remove_all(run_folder(name) / "checkpoints/step-00000010");
    std::ofstream(run_folder(name) / "checkpoints/latest") << "step-00000005\n";
    const auto file = event_files(name).back();
    fs::resize_file(file, fs::file_size(file) - static_cast<uintmax_t>(cut_off));
  }

  /// A rank's trace as names of events.
  std::multiset<std::string> traced(const std::string& name, int rank) const {
    const auto trace = json::parse(get_bytes(run_folder(name) / "trace" / ("rank-" + std::to_string(rank) + ".json")));
    std::multiset<std::string> names;
    for (const json& event : trace.at("traceEvents")) {
      if (event.value("ph", "") != "X") continue;
      EXPECT_GE(event.at("dur").get<double>(), 0.0);
      names.insert(event.at("name"));
    }
    return names;
  }
};

const std::vector<std::string> kEventful = {"--set", "metrics.tensorboard=true", "--set", "eval.every=5",
                                            "--set", "checkpoint.every=5",       "--set", "sample.prompt=line",
                                            "--set", "sample.tokens=8"};

std::vector<std::string> operator+(std::vector<std::string> one, const std::vector<std::string>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

TEST_F(Watch, EventFilesMatchMetrics) {
  const auto run = train("run", kEventful, {"--nproc-per-node", "2"});
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(steps("run").size(), 10u);
  EXPECT_EQ(events("run", "evaluation").size(), 2u);
  EXPECT_EQ(events("run", "sample").size(), 1u);
  expect_same_as_metrics("run");
  ASSERT_EQ(train("run", {"--overwrite"}).status, 0);
  EXPECT_FALSE(fs::exists(run_folder("run") / "tensorboard")) << "of the run that was overwritten";
}

TEST_F(Watch, ResumedRunWritesANewFileAfterACrash) {
  ASSERT_EQ(train("whole", kEventful).status, 0);
  for (const int64_t cut_off : {0, 1, 30, 200}) {
    SCOPED_TRACE(::testing::Message() << cut_off << " bytes are cut off");
    const std::string name = "cut" + std::to_string(cut_off);
    fs::copy(run_folder("whole"), run_folder(name), fs::copy_options::recursive);
    crash_at_step_5(name, cut_off);
    const auto resumed = train(name, kEventful + std::vector<std::string>{"--resume"});
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    EXPECT_EQ(event_files(name).size(), 2u);
    ASSERT_EQ(steps(name).size(), 10u);
    expect_same_as_metrics(name);
  }
}

TEST_F(Watch, RollbackDropsLaterSteps) {
  const auto folder = run_folder("run") / "tensorboard";
  const auto write = [](EventFile& file, int64_t first, int64_t last, double value) {
    for (int64_t step = first; step <= last; ++step) file.scalars(step, std::array{Scalar{"loss", value}});
  };
  EventFile first(folder, 1);
  write(first, 1, 300, 0.5);
  first.text(300, "sample", "a\n\nb");
  EventFile second(folder, 250);  // within the same second
  write(second, 250, 270, 0.25);
  second.restart(260);
  write(second, 260, 265, -3.0);
  EventFile third(folder, 263);
  third.text(263, "sample", "");

  const auto found = shown("run");
  EXPECT_EQ(event_files("run").size(), 3u);
  ASSERT_EQ(found.at("loss").size(), 262u);
  for (const auto& [step, value] : found.at("loss"))
    EXPECT_EQ(value, step < 250 ? 0.5 : step < 260 ? 0.25 : -3.0) << step;
  EXPECT_EQ(found.at("sample"), (std::map<int64_t, json>{{263, "    "}}));
}

TEST_F(Watch, ContinuesFilesOfAKilledRun) {
  std::vector<std::string> words =
      training("run", kEventful + std::vector<std::string>{"--set", "train.steps=200", "--resume=auto"});
  words.insert(words.begin(), MODRUN);
  for (int kills = 0; kills < 2; ++kills) {
    const auto run = testing::start_program(words, folder_.path());
    const auto taken = [&] { return fs::exists(run_folder("run")) ? steps_so_far("run") : 0; };
    testing::await(run, [&, before = taken()] { return taken() > before + 20; });
    kill(run.pid, SIGKILL);
    testing::end_of_program(run);
  }
  const auto ended = testing::end_of_program(testing::start_program(words, folder_.path()));
  ASSERT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(event_files("run").size(), 3u);
  ASSERT_EQ(steps("run").size(), 200u);
  expect_same_as_metrics("run");
}

TEST_F(Watch, TracesTheGivenStepsWithoutChangingResults) {
  for (const auto& [mesh, launcher, settings] :
       {std::tuple("alone", std::vector<std::string>{}, std::vector<std::string>{}),
        std::tuple("fsdp", std::vector<std::string>{"--nproc-per-node", "2"}, std::vector<std::string>{}),
        std::tuple("pp", std::vector<std::string>{"--nproc-per-node", "2"},
                   std::vector<std::string>{"--set", "parallel.pp=2", "--set", "train.micro_batches=2"})}) {
    SCOPED_TRACE(mesh);
    const std::string plain = std::string(mesh) + "-plain", with = std::string(mesh) + "-traced";
    ASSERT_EQ(train(plain, settings, launcher).status, 0);
    const auto run = train(with, settings + std::vector<std::string>{"--set", "metrics.trace=[4, 6]"}, launcher);
    ASSERT_EQ(run.status, 0) << run.output;
    expect_same_checkpoint(plain, with, "step-00000010");
    EXPECT_FALSE(fs::exists(run_folder(plain) / "trace"));
    for (int rank = 0; rank < (launcher.empty() ? 1 : 2); ++rank) {
      SCOPED_TRACE(::testing::Message() << "rank " << rank);
      const auto names = traced(with, rank);
      for (int step = 1; step <= 10; ++step)
        EXPECT_EQ(names.count("step " + std::to_string(step)), step >= 4 && step <= 6 ? 1u : 0u) << step;
      const bool staged = std::string(mesh) == "pp";
      for (const char* scope : {"wait for data", "optimizer", "gradient norm"})
        EXPECT_EQ(names.count(scope), 3u) << scope;
      for (const char* scope : {"forward", "backward"}) EXPECT_EQ(names.count(scope), staged ? 6u : 3u) << scope;
      const std::string layer = "model.layers." + std::to_string(staged ? rank : 0);
      EXPECT_EQ(names.count(layer), staged ? 6u : 3u) << layer;
      EXPECT_GT(names.count("modular::Attention"), 0u);
      const auto has = [&](const std::string& text) {
        return std::ranges::any_of(names, [&](const std::string& name) { return name.find(text) != name.npos; });
      };
      EXPECT_EQ(has("wait for all_reduce of the gradient norm over"), !launcher.empty());
      EXPECT_EQ(has("of model.layers.0 over dp_shard"), std::string(mesh) == "fsdp");
    }
  }
}

TEST_F(Watch, WritesTheTraceIfTheRunEndsWithinIt) {
  std::vector<std::string> words = training("run", {"--set", "train.steps=2000", "--set", "metrics.trace=[2, 2000]"});
  words.insert(words.begin(), MODRUN);
  const auto run = testing::start_program(words, folder_.path());
  testing::await(run, [&] { return fs::exists(run_folder("run")) && steps_so_far("run") >= 5; });
  kill(run.pid, SIGTERM);
  ASSERT_EQ(testing::end_of_program(run).status, 128 + SIGTERM);
  const auto names = traced("run", 0);
  EXPECT_EQ(names.count("step 1"), 0u);
  EXPECT_EQ(names.count("step 5"), 1u);
}

TEST_F(Watch, RejectsInvalidStepsBeforeStartingRanks) {
  for (const std::string steps : {"[10, 12]", "[0, 3]", "[3, 2]", "[1, 2, 3]", "4"}) {
    const auto run = train("run", {"--set", "metrics.trace=" + steps}, {"--nproc-per-node", "2"});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr("--set metrics.trace=" + steps + ": metrics.trace is ["));
    EXPECT_THAT(run.output, HasSubstr("give the first and the last step to trace, from 1 to train.steps (10)"));
    EXPECT_FALSE(fs::exists(run_folder("run")));
  }
}

TEST_F(Watch, WaitsAndRatesBelongToTheStep) {
  ASSERT_EQ(train("run").status, 0);
  for (const json& step : steps("run")) {
    EXPECT_GT(step["data_wait"].get<double>(), 0.0);
    EXPECT_LT(step["data_wait"].get<double>(), step["seconds"].get<double>());
    EXPECT_NEAR(step["samples_per_second"].get<double>() * step["seconds"].get<double>(), 8.0, 1e-9);
  }
}

TEST_F(Watch, ReportsMfuOnCpuAfterTheFirstStep) {
  const auto run = train("measured");
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(train("given", set({"metrics.peak_tflops=0.5"})).status, 0);
  ASSERT_EQ(train("two", set({"metrics.peak_tflops=0.5"}), {"--nproc-per-node", "2"}).status, 0);
  /// Seconds that a step would take at the peak, which are the same for each step from `first` on.
  const auto at_peak = [&](const std::string& name, size_t first) {
    std::set<double> found;
    const auto all = steps(name);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].contains("mfu"), i >= first) << name << ", step " << i + 1;
      if (i >= first) found.insert(all[i]["mfu"].get<double>() * all[i]["seconds"].get<double>());
    }
    EXPECT_LT(*found.rbegin() - *found.begin(), 1e-9 * *found.begin()) << name;
    return *found.begin();
  };
  EXPECT_GT(at_peak("measured", 1), 0.0);
  EXPECT_THAT(run.output, HasSubstr(" GiB  mfu "));
  const double given = at_peak("given", 0);
  EXPECT_NEAR(at_peak("two", 0), given / 2.0, 1e-9 * given) << "two devices have twice the peak";
  expect_same_checkpoint("measured", "given", "step-00000010");
}

TEST_F(Watch, SummaryComesLast) {
  const auto run = train("run", {"--set", "eval.every=2", "--set", "checkpoint.every=5", "--set", "optim.lr=0.1"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto ends = events("run", "end");
  ASSERT_EQ(ends.size(), 1u);
  const json& end = ends[0];
  EXPECT_EQ(end["step"], 10);
  EXPECT_EQ(end["steps"], 10);
  EXPECT_EQ(end["samples"], 80);
  EXPECT_EQ(end["tokens"], 80 * 32);
  double seconds = 0.0;
  int64_t memory = 0;
  for (const json& step : steps("run")) {
    seconds += step["seconds"].get<double>();
    memory = std::max(memory, step["memory_peak"].get<int64_t>());
  }
  EXPECT_NEAR(end["tokens_per_second"].get<double>(), 80 * 32 / seconds, 1e-6 * 80 * 32 / seconds);
  EXPECT_GT(end["seconds"].get<double>(), seconds) << "evaluations and checkpoints take time too";
  EXPECT_EQ(end["memory_peak"], memory);
  EXPECT_FALSE(end.contains("stopped_by"));
  const auto evaluations = events("run", "evaluation");
  const auto best = std::ranges::min_element(evaluations, {}, [](const json& e) { return e["val_loss"]; });
  EXPECT_EQ(end["val_loss"], evaluations.back()["val_loss"]);
  EXPECT_EQ(end["best_val_loss"], (*best)["val_loss"]);
  EXPECT_EQ(end["best_step"], (*best)["step"]);
  EXPECT_THAT(run.output, HasSubstr("\ntrained 10 steps in "));
  EXPECT_THAT(run.output, HasSubstr(": 80 samples, 0.00 M tokens, "));
  EXPECT_THAT(run.output, HasSubstr("best " + fmt::format("{:.4f}", (*best)["val_loss"].get<double>())));
  EXPECT_TRUE(run.output.ends_with("checkpoints are in " + (run_folder("run") / "checkpoints").string() + "\n"))
      << run.output;

  // The best evaluation counts for the entire run, trained steps only for this part.
  const auto longer =
      train("run", {"--resume", "--set", "train.steps=12", "--set", "optim.lr=3", "--set", "optim.schedule=constant"});
  ASSERT_EQ(longer.status, 0) << longer.output;
  const json later = events("run", "end").back();
  EXPECT_EQ(later["step"], 12);
  EXPECT_EQ(later["steps"], 2);
  EXPECT_EQ(later["samples"], 16);
  EXPECT_EQ(later["best_step"], (*best)["step"]);
  const auto finished = train("run", {"--resume", "--set", "train.steps=12"});
  EXPECT_EQ(finished.output.find("trained 0 steps"), std::string::npos) << finished.output;
}

TEST_F(Watch, SummaryNamesTheSignalThatStoppedTheRun) {
  std::vector<std::string> words = training("run", {"--set", "train.steps=2000"});
  words.insert(words.begin(), MODRUN);
  const auto run = testing::start_program(words, folder_.path());
  testing::await(run, [&] { return fs::exists(run_folder("run")) && steps_so_far("run") >= 5; });
  kill(run.pid, SIGTERM);
  const auto ended = testing::end_of_program(run);
  ASSERT_EQ(ended.status, 128 + SIGTERM) << ended.output;
  const auto ends = events("run", "end");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]["stopped_by"], "SIGTERM");
  EXPECT_EQ(ends[0]["step"], steps("run").back()["step"]);
  const auto step = std::to_string(ends[0]["step"].get<int64_t>());
  EXPECT_THAT(ended.output, HasSubstr("stopped by SIGTERM after step " + step +
                                      " of 2000: --resume continues it\n"
                                      "trained " +
                                      step + " steps in "));
}

/// The notes of a rank's hooks, as words of lines.
std::vector<std::vector<std::string>> noted(const fs::path& file) {
  std::vector<std::vector<std::string>> result;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    result.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return result;
}

TEST_F(Watch, CallsHooksOnEveryRank) {
  std::vector<std::string> words =
      training("run", {"--set", "eval.every=5", "--set", "checkpoint.every=5"}, {"--nproc-per-node", "2"});
  words.insert(words.begin(), HOOKED_MODRUN);
  const auto run = [&](const std::vector<std::string>& variables) {
    return testing::end_of_program(testing::start_program(words, folder_.path(), variables));
  };
  const auto notes = (folder_.path() / "hooks").string();
  const auto ended = run({"MODULAR_HOOKS=" + notes});
  ASSERT_EQ(ended.status, 0) << ended.output;
  std::vector<std::string> first_calls;
  for (const int rank : {0, 1}) {
    std::vector<std::string> calls;
    std::map<std::string, std::vector<std::string>> step;
    for (const auto& note : noted(notes + "-" + std::to_string(rank))) {
      calls.push_back(note[0] + " " + note[1]);
      if (note[0] == "step") step[note[1]] = note;
      if (note[0] == "checkpoint") {
        EXPECT_EQ(note[2], fmt::format("step-{:08}", std::stoi(note[1])));
      }
    }
    if (rank == 0) first_calls = calls;
    EXPECT_EQ(calls, first_calls) << "each call is made at one place of the run";
    // The one of step 5 is complete some steps later.
    const auto saved = std::ranges::find(calls, "checkpoint 5"), after = std::ranges::find(calls, "step 5");
    ASSERT_NE(saved, calls.end());
    EXPECT_LT(after, saved);
    calls.erase(saved);
    EXPECT_THAT(calls,
                ::testing::ElementsAre("step 1", "step 2", "step 3", "step 4", "step 5", "evaluation 5", "step 6",
                                       "step 7", "step 8", "step 9", "step 10", "evaluation 10", "checkpoint 10"));
    for (const json& written : steps("run")) {
      const auto& note = step[std::to_string(written["step"].get<int64_t>())];
      ASSERT_EQ(note.size(), 5u);
      EXPECT_EQ(std::stod(note[2]), written["loss"].get<double>());
      EXPECT_EQ(std::stod(note[3]), written["data_wait"].get<double>());
      EXPECT_EQ(std::stoll(note[4]), written["memory_peak"].get<int64_t>());
    }
  }
  const auto written = steps("run");
  EXPECT_GT(written[4]["memory_peak"].get<int64_t>() - written[3]["memory_peak"].get<int64_t>(), 200 << 20)
      << "of the fullest rank, which is not rank 0";

  fs::remove_all(run_folder("run"));
  const auto failed = run({"MODULAR_HOOKS=" + notes, "MODULAR_HOOKS_FAIL=1"});
  EXPECT_EQ(failed.status, 1) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("the hook has had enough"));
}

}  // namespace
}  // namespace modular
