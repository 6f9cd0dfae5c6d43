// The page contains its data escaped, is small, and is deterministic.
#include "runtime/report/page.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace modular {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json get_data(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

RunHistory long_run(int64_t steps) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(3.0, 0.1);
  RunHistory run{.folder = "runs/long", .has_ended = true};
  for (const char* name : {"loss", "grad_norm", "lr", "tokens_per_second", "samples_per_second", "seconds", "data_wait",
                           "samples", "memory_peak", "router_loss", "expert_load", "mfu"}) {
    Series& series = run.steps.emplace_back(Series{.name = name});
    for (int64_t step = 1; step <= steps; ++step) series.add(step, normal(random));
  }
  return run;
}

TEST(Page, EscapesUntrustedText) {
  const std::string text = "</script><script>alert(1)</script><!--";
  RunHistory run{.folder = "runs/" + text, .config = {{"model.entry", text}}};
  run.mesh = run.stopped_by = text;
  run.samples = {{1, text}};
  SearchHistory search{
      .folder = "searches/a",
      .study = {.config = {.objectives = {{text, true}}, .space = {{.key = text, .choices = {text}}}}}};
  search.study.trials = {{.number = 0, .settings = {{text, text}}, .failure = text}};
  const std::string page = report_page({run}, {search});
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  const json data = get_data(page);
  EXPECT_EQ(data["runs"][0]["samples"][0]["text"], text);
  EXPECT_EQ(data["searches"][0]["trials"][0]["failure"], text);
  EXPECT_EQ(data["searches"][0]["objectives"][0]["name"], text);
}

TEST(Page, ReplacesInvalidUtf8) {
  const json data = get_data(report_page({RunHistory{.folder = "runs/\xff"}}, {}));
  EXPECT_EQ(data["runs"][0]["name"], "\uFFFD");
}

TEST(Page, MakesNoNetworkRequests) {
  const std::string page = report_page({long_run(10)}, {});
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\""));
  for (const char* word : {" src=", " href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_THAT(page, Not(HasSubstr(word)));
}

TEST(Page, OfALongRunIsSmallAndDeterministic) {
  const std::string page = report_page({long_run(200000)}, {});
  EXPECT_LT(page.size(), 1u << 20);
  EXPECT_EQ(page, report_page({long_run(200000)}, {}));
  const json loss = get_data(page)["runs"][0]["steps"][0];
  EXPECT_EQ(loss["points"], 200000);
  EXPECT_LE(loss["steps"].size(), kMostPoints);
  EXPECT_EQ(loss["steps"].size(), loss["values"].size());
  EXPECT_EQ(loss["mean_steps"].size(), loss["means"].size());
}

TEST(Page, NamesRunsByTheirFoldersAndListsConfigDifferences) {
  const RunHistory one{.folder = "a/run/", .config = {{"optim.lr", "0.1"}, {"train.dir", "'a'"}, {"train.seed", "1"}}};
  const RunHistory two{
      .folder = "b/run",
      .config = {{"optim.lr", "0.2"}, {"train.dir", "'b'"}, {"train.seed", "1"}, {"optim.eps", "1.0"}}};
  const RunHistory three{.folder = "c", .config = two.config};
  const json data = get_data(report_page({one, two, three}, {}));
  EXPECT_EQ(data["runs"][0]["name"], "a/run/");
  EXPECT_EQ(data["runs"][1]["name"], "b/run");
  EXPECT_EQ(data["runs"][2]["name"], "c");
  EXPECT_EQ(data["differences"], json::parse(R"([{"key": "optim.eps", "values": [null, "1.0", "1.0"]},
                                                 {"key": "optim.lr", "values": ["0.1", "0.2", "0.2"]}])"));
}

TEST(Page, TableHasLossesThroughputAndMemory) {
  RunHistory run{.folder = "run", .evaluations = {{"held_out_loss", {5, 10, 15, 20}, {3.0, 2.0, std::nan(""), 2.5}}}};
  run.steps = {{"loss", {1, 2}, {1.0, 1.0}},
               {"seconds", {1, 2}, {1.0, 3.0}},
               {"tokens_per_second", {1, 2}, {100.0, 200.0}},
               {"memory_peak", {1, 2}, {7.0, 9.0}}};
  const json shown = get_data(report_page({run}, {}))["runs"][0];
  EXPECT_EQ(shown["last_loss"], 2.5);
  EXPECT_EQ(shown["best_loss"], 2.0);
  EXPECT_EQ(shown["best_step"], 10);
  EXPECT_EQ(shown["tokens_per_second"], 175.0) << "700 tokens in 4 seconds";
  EXPECT_EQ(shown["memory_peak"], 9.0);
  EXPECT_EQ(shown["last_step"], 2);
}

TEST(Page, WinnersAreTheBestTrialOrTheParetoFront) {
  SearchHistory search{.folder = "s",
                       .study = {.config = {.objectives = {{"held_out_loss", true}},
                                            .space = {{.key = "optim.lr", .low = 0.1, .high = 1.0}}}}};
  const auto trial = [](int64_t number, std::vector<double> values) {
    return Trial{.number = number, .settings = {{"optim.lr", "0.5"}}, .values = std::move(values)};
  };
  search.study.trials = {trial(0, {3.0}), trial(1, {1.0}), trial(2, {2.0})};
  EXPECT_EQ(get_data(report_page({}, {search}))["searches"][0]["winners"], json({1}));
  search.study.config.objectives.push_back({"tokens_per_second", false});
  search.study.trials = {trial(0, {3.0, 5.0}), trial(1, {1.0, 2.0}), trial(2, {2.0, 1.0})};
  EXPECT_EQ(get_data(report_page({}, {search}))["searches"][0]["winners"], json({0, 1}));
}

}  // namespace
}  // namespace modular
