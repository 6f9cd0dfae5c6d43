// modrun report: the page contains all of metrics.jsonl and trials.jsonl; invalid input is rejected and does not change
// the page.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/report/reported_runs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ReportCommand : public ReportedRuns {
 protected:
  json data() const {
    const std::string text = get_bytes(page()), begin = "id=\"data\">";
    const size_t at = text.find(begin) + begin.size();
    return json::parse(text.substr(at, text.find("</script>", at) - at));
  }

  /// Returns the one-line error of a report of `folders`.
  std::string error(const std::vector<std::string>& folders) const {
    const auto rejected = report(folders);
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_THAT(rejected.output, StartsWith("modrun: "));
    EXPECT_EQ(rejected.output.find('\n'), rejected.output.size() - 1) << rejected.output;
    return rejected.output.substr(8);
  }
};

TEST_F(ReportCommand, ContainsEveryNumberOfTheRuns) {
  make_runs();
  const auto made = report({run_folder("one").string(), run_folder("experts").string()});
  ASSERT_EQ(made.status, 0) << made.output;
  EXPECT_THAT(made.output, StartsWith(page().string() + ": 2 runs, 0 searches, "));
  const json shown = data();
  ASSERT_EQ(shown["runs"].size(), 2u);
  for (const json& run : shown["runs"]) {
    std::map<std::string, std::map<int64_t, double>> found;
    for (const char* kind : {"steps", "evaluations"})
      for (const json& series : run[kind])
        for (size_t i = 0; i < series["steps"].size(); ++i)
          found[series["name"]][series["steps"][i]] = series["values"][i];
    const auto expected = numbers(run["name"]);
    EXPECT_EQ(expected.at("loss").size(), 10u);
    EXPECT_EQ(expected.contains("expert_load"), run["name"] == "experts");
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, points] : expected) {
      ASSERT_EQ(found[name].size(), points.size()) << name;
      for (const auto& [step, value] : points) EXPECT_NEAR(found[name].at(step), value, 1e-6 * std::abs(value)) << name;
    }
  }
  const json &one = shown["runs"][0], &experts = shown["runs"][1];
  EXPECT_EQ(one["entry"], "'LlamaForCausalLM'");
  EXPECT_EQ(one["mesh"], events("one", "start").back()["mesh"]);
  EXPECT_EQ(one["parameters"], events("one", "start").back()["parameters"]);
  EXPECT_EQ(one["last_step"], 10);
  EXPECT_EQ(one["planned"], "10");
  EXPECT_TRUE(one["events"].empty());
  EXPECT_EQ(experts["events"][0]["step"], 6);
  EXPECT_THAT(experts["events"][0]["text"].get<std::string>(), StartsWith("resumed after step 6 on "));
  const auto end_event = events("one", "end").back();
  EXPECT_NEAR(one["time"]["computing"].get<double>() + one["time"]["waiting"].get<double>() +
                  one["time"]["between"].get<double>(),
              end_event["seconds"], 1e-5);
  std::set<std::string> differing;
  for (const json& setting : shown["differences"]) differing.insert(setting["key"]);
  EXPECT_TRUE(differing.contains("optim.lr"));
  EXPECT_FALSE(differing.contains("train.dir"));
  EXPECT_FALSE(differing.contains("train.seq_len"));
}

TEST_F(ReportCommand, ContainsEveryTrialOfASearch) {
  make_search();
  ASSERT_EQ(report({study().string()}).status, 0);
  const json shown = data()["searches"][0];
  std::ifstream in(study() / "trials.jsonl");
  std::string line;
  std::getline(in, line);
  size_t count = 0;
  for (; std::getline(in, line); ++count) {
    const json expected = json::parse(line), &trial = shown["trials"].at(count);
    EXPECT_EQ(trial["number"], expected["trial"]);
    for (size_t i = 0; i < shown["space"].size(); ++i)
      EXPECT_EQ(trial["settings"][i], expected["settings"][shown["space"][i]["key"].get<std::string>()]);
    EXPECT_EQ(trial.contains("failure"), expected.contains("failure"));
    if (expected.contains("failure")) {
      EXPECT_EQ(trial["failure"], expected["failure"]);
      continue;
    }
    for (size_t i = 0; i < 2; ++i) {
      const double value = expected["values"][shown["objectives"][i]["name"].get<std::string>()];
      EXPECT_NEAR(trial["values"][i].get<double>(), value, 1e-6 * value);
    }
  }
  EXPECT_EQ(count, 6u);
  EXPECT_EQ(shown["trials"].size(), count);
  std::set<std::string> winners, files;
  for (const json& number : shown["winners"]) winners.insert(fmt::format("{:04}.toml", number.get<int64_t>()));
  for (const auto& file : fs::directory_iterator(study() / "pareto")) files.insert(file.path().filename());
  EXPECT_EQ(winners, files) << "as the search reported";
}

TEST_F(ReportCommand, IsDeterministicAndWritesReportHtmlByDefault) {
  ASSERT_EQ(train("run").status, 0);
  ASSERT_EQ(report({run_folder("run").string()}).status, 0);
  const std::string first = get_bytes(page());
  ASSERT_EQ(report({run_folder("run").string()}).status, 0);
  EXPECT_TRUE(first == get_bytes(page()));
  const fs::path here = fs::current_path();
  fs::current_path(folder_.path() / "data");
  const auto made = modrun({"report", run_folder("run").string()});
  fs::current_path(here);
  ASSERT_EQ(made.status, 0) << made.output;
  EXPECT_TRUE(first == get_bytes(folder_.path() / "data/report.html"));
}

TEST_F(ReportCommand, RejectsOtherFoldersAndKeepsTheExistingPage) {
  folder_.write("report.html", "old");
  const std::string data = (folder_.path() / "data").string();
  EXPECT_EQ(
      error({data}),
      data + " is neither a run nor a search: a run's folder has metrics.jsonl, and that of a search trials.jsonl\n");
  EXPECT_THAT(error({"/no/such/run"}), StartsWith("/no/such/run is not there: "));
  folder_.write("broken/metrics.jsonl", "{\"step\":1,\"seconds\":1}\n{\"step\":2,\n{\"step\":3,\"seconds\":1}\n");
  const std::string broken = (folder_.path() / "broken").string();
  EXPECT_THAT(error({broken}), StartsWith(broken + "/metrics.jsonl:2: invalid line of a run's metrics ("));
  folder_.write("study/trials.jsonl",
                "{\"study\":{\"backend\":\"grid\",\"seed\":1,\"objectives\":[{\"name\":\"loss\",\"minimize\":true}],"
                "\"space\":[{\"key\":\"optim.lr\",\"low\":0.1,\"high\":1,\"step\":0,\"log\":false,\"whole\":false}]}}\n"
                "{\"trial\":0,\"settings\":{\"optim.lr\":\"high\"},\"values\":{\"loss\":1},\"seconds\":1}\n");
  EXPECT_THAT(
      error({study().string()}),
      StartsWith(study().string() + "/trials.jsonl:2: not a trial of this study (its optim.lr is not a number)"));
  folder_.write("study/trials.jsonl", "{}\n");
  EXPECT_THAT(error({study().string()}), StartsWith(study().string() + "/trials.jsonl:1: invalid study header ("));
  EXPECT_EQ(get_bytes(page()), "old");
}

TEST_F(ReportCommand, RejectsAPageThatCannotBeWritten) {
  folder_.write("run/metrics.jsonl", "");
  const std::string run = (folder_.path() / "run").string();
  const auto into = [&](const std::string& out) {
    const auto rejected = modrun({"report", run, "--out", out});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    return rejected.output;
  };
  EXPECT_THAT(into("/no/such/folder/report.html"), StartsWith("modrun: --out /no/such/folder/report.html: "));
  EXPECT_THAT(into(run), HasSubstr("is a folder: name a file in it"));
  EXPECT_EQ(modrun({"report"}).status, 2);
}

}  // namespace
}  // namespace modular
