// A real browser renders the page: every curve and trial is present for all controls, and the console stays empty.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "tests/report/reported_runs.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// Path of this machine's browser; empty if none is installed.
std::string browser() {
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (const auto file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0) return file;
  return {};
}

class Browser : public ReportedRuns {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "no chromium on PATH: run apt-get install chromium to enable this test";
  }

  /// Returns the DOM after the page's scripts and `then` have run, and the browser's log.
  std::string render(const std::string& then = "") const {
    std::string text = get_bytes(page());
    text.insert(text.rfind("</body>"), "<script>" + then + "</script>");
    const auto file = folder_.write("rendered.html", text);
    const auto run = testing::end_of_program(
        testing::start_program({browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000",
                                "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=5000",
                                "--user-data-dir=" + (folder_.path() / "browser").string(), "file://" + file.string()},
                               folder_.path()));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, Not(HasSubstr("CONSOLE"))) << "the console must be empty";
    return run.output;
  }

  /// Returns the SVG path of a run's curve; empty if there is none.
  static std::string path(const std::string& page, const std::string& run, const std::string& name,
                          const std::string& kind) {
    const std::regex element(
        fmt::format("<path class=\"{}\" d=\"([^\"]*)\"[^>]* data-run=\"{}\" data-name=\"{}\"", kind, run, name));
    std::smatch found;
    return std::regex_search(page, found, element) ? found[1].str() : "";
  }

  /// Number of points of that path; 0 if there is none.
  static int64_t points(const std::string& page, const std::string& run, const std::string& name,
                        const std::string& kind = "curve") {
    const std::string d = path(page, run, name, kind);
    return std::ranges::count_if(d, [](char c) { return c == 'M' || c == 'L'; });
  }

  /// Smallest distance of the path's points from the upper edge of the chart.
  static double highest(const std::string& page, const std::string& run, const std::string& name,
                        const std::string& kind) {
    std::string d = path(page, run, name, kind);
    std::ranges::replace_if(d, [](char c) { return std::isalpha(c); }, ' ');
    std::istringstream numbers(d);
    double highest = 1e9;
    for (double x, y; numbers >> x >> y;) highest = std::min(highest, y);
    return highest;
  }
};

TEST_F(Browser, RendersEveryCurveOfTheRuns) {
  make_runs();
  ASSERT_EQ(report({run_folder("one").string(), run_folder("experts").string()}).status, 0);
  const std::string page = render();
  for (const char* run : {"one", "experts"})
    for (const auto& [name, values] : numbers(run))
      EXPECT_EQ(points(page, run, name), static_cast<int64_t>(values.size())) << run << " " << name;
  EXPECT_THAT(page, HasSubstr("experts: resumed after step 6 on "));
  EXPECT_EQ(points(page, "one", "loss", "curve raw"), 0);

  const std::string changed = render(
      "const [slider, log] = document.querySelectorAll('.controls input');"
      "slider.value = 0.9; slider.dispatchEvent(new Event('input')); log.click();");
  for (const char* kind : {"curve", "curve raw"}) EXPECT_EQ(points(changed, "one", "loss", kind), 10) << kind;
  const std::string hidden = render("document.querySelector('.legend button').click()");
  EXPECT_EQ(points(hidden, "one", "loss"), 0);
  EXPECT_EQ(points(hidden, "experts", "loss"), 10);
}

TEST_F(Browser, RendersTheMeanAndTheExtremesOfALongRun) {
  std::string lines;
  for (int step = 1; step <= 9000; ++step)
    lines += fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":1}}\n", step, step == 4321 ? 100 : step % 2);
  folder_.write("runs/long/metrics.jsonl", lines);
  ASSERT_EQ(report({run_folder("long").string()}).status, 0);
  const std::string page = render();
  EXPECT_EQ(points(page, "long", "loss"), 999) << "means of buckets";
  EXPECT_EQ(points(page, "long", "loss", "band"), 2 * 999);
  // The spike reaches y = 100, which is 4 % of the value range below the upper edge.
  EXPECT_EQ(highest(page, "long", "loss", "band"), 6 + std::round(180 * 0.04 / 1.08 * 10) / 10);
}

TEST_F(Browser, TheTooltipShowsTheValuesOfAStep) {
  make_runs();
  ASSERT_EQ(report({run_folder("one").string()}).status, 0);
  const std::string page = render(
      "const picture = document.querySelector('figure > svg'), rect = picture.getBoundingClientRect();"
      "picture.dispatchEvent(new PointerEvent('pointermove', { clientX: rect.right - 8, clientY: rect.top + 50 }));");
  const double last = steps("one").back()["loss"];
  std::smatch found;
  ASSERT_TRUE(std::regex_search(page, found,
                                std::regex("<div class=\"tip\" style=[^>]*><div><span>step "
                                           "10</span></div><div><svg.*?</svg><span>one</span><b>([0-9.]+)</b>")));
  EXPECT_NEAR(std::stod(found[1]), last, 1e-3 * last);
}

TEST_F(Browser, RendersEveryTrialOfASearch) {
  make_search();
  ASSERT_EQ(report({study().string()}).status, 0);
  const std::string page = render();
  const auto count = [&](const std::string& text) {
    int64_t found = 0;
    for (size_t at = 0; (at = page.find(text, at)) != std::string::npos; at += text.size()) ++found;
    return found;
  };
  // Each of the four successful trials appears in the Pareto front, in two histories, in the charts of four
  // hyperparameters for two objectives, and as a line.
  for (int64_t trial = 0; trial < 6; ++trial)
    EXPECT_EQ(count(fmt::format("data-trial=\"{}\"", trial)), trial == 2 || trial == 3 ? 0 : 1 + 2 + 8 + 1) << trial;
  for (const int64_t failed : {2, 3})
    EXPECT_EQ(count(fmt::format("data-failed=\"{}\"", failed)), 2) << "in the two histories";
  EXPECT_THAT(page, HasSubstr("its run failed with status 1, see "));
  EXPECT_EQ(count("data-key=\"optim.lr\""), 2) << "its importance for both objectives";
}

TEST_F(Browser, ShowsRunsWithoutStepsAndSearchesWithoutResults) {
  folder_.write("runs/new/metrics.jsonl", "");
  folder_.write("runs/begun/metrics.jsonl", "{\"step\":1,\"loss\":null,\"seconds\":0.5}\n");
  const std::string head =
      "{\"study\":{\"backend\":\"grid\",\"seed\":1,\"objectives\":[{\"name\":\"held_out_loss\",\"minimize\":true}],"
      "\"space\":[{\"key\":\"optim.lr\",\"choices\":[\"0.1\"]}]}}\n";
  folder_.write("study/trials.jsonl", head);
  folder_.write("failed/trials.jsonl",
                head + "{\"trial\":0,\"settings\":{\"optim.lr\":\"0.1\"},\"failure\":\"no room\",\"seconds\":1}\n");
  ASSERT_EQ(report({run_folder("new").string(), run_folder("begun").string(), study().string(),
                    (folder_.path() / "failed").string()})
                .status,
            0);
  const std::string page = render();
  EXPECT_THAT(page, HasSubstr("no finite value"));
  EXPECT_THAT(page, HasSubstr("grid, 0 trials: no results yet."));
  EXPECT_THAT(page, HasSubstr("grid, 1 trials, 1 failed: no results yet."));
  EXPECT_THAT(page, HasSubstr(">no room</td>"));
}

}  // namespace
}  // namespace modular
