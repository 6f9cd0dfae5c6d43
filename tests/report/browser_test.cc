// A real browser draws the page: every curve and trial is there, whatever is switched on, and its console stays empty.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

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

/// The browser of this machine, or nothing.
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
    if (browser().empty()) GTEST_SKIP() << "there is no chromium on PATH: apt-get install chromium has this tested";
  }

  /// The page as the browser has it after its programs and `then` have run; what it logs comes along.
  std::string drawn(const std::string& then = "") const {
    std::string text = bytes_of(page());
    text.insert(text.rfind("</body>"), "<script>" + then + "</script>");
    const auto file = folder_.write("drawn.html", text);
    const auto run = testing::end_of_program(
        testing::start_program({browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000",
                                "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=5000",
                                "--user-data-dir=" + (folder_.path() / "browser").string(), "file://" + file.string()},
                               folder_.path()));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, Not(HasSubstr("CONSOLE"))) << "nothing to say of the page";
    return run.output;
  }

  /// How many points the path has that draws a number of a run; -1 where there is none.
  static int64_t points(const std::string& page, const std::string& run, const std::string& name,
                        const std::string& kind = "curve") {
    const std::regex path(
        fmt::format("<path class=\"{}\" d=\"([^\"]*)\"[^>]* data-run=\"{}\" data-name=\"{}\"", kind, run, name));
    std::smatch found;
    if (!std::regex_search(page, found, path)) return -1;
    const std::string d = found[1];
    return std::count_if(d.begin(), d.end(), [](char c) { return c == 'M' || c == 'L'; });
  }
};

TEST_F(Browser, DrawsEveryCurveOfTheRuns) {
  make_runs();
  ASSERT_EQ(report({run_folder("one").string(), run_folder("experts").string()}).status, 0);
  const std::string page = drawn();
  for (const char* run : {"one", "experts"})
    for (const auto& [name, values] : numbers(run))
      EXPECT_EQ(points(page, run, name), static_cast<int64_t>(values.size())) << run << " " << name;
  EXPECT_THAT(page, HasSubstr("experts: resumed after step 6 on "));
  EXPECT_EQ(points(page, "one", "loss", "curve raw"), -1);

  const std::string changed = drawn(
      "const [slider, log] = document.querySelectorAll('.controls input');"
      "slider.value = 0.9; slider.dispatchEvent(new Event('input')); log.click();");
  for (const char* kind : {"curve", "curve raw"}) EXPECT_EQ(points(changed, "one", "loss", kind), 10) << kind;
  const std::string hidden = drawn("document.querySelector('.legend button').click()");
  EXPECT_EQ(points(hidden, "one", "loss"), -1);
  EXPECT_EQ(points(hidden, "experts", "loss"), 10);
}

TEST_F(Browser, ThePointerShowsTheValuesOfAStep) {
  make_runs();
  ASSERT_EQ(report({run_folder("one").string()}).status, 0);
  const std::string page = drawn(
      "const picture = document.querySelector('figure > svg'), box = picture.getBoundingClientRect();"
      "picture.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 8, clientY: box.top + 50 }));");
  const double last = steps("one").back()["loss"];
  std::smatch found;
  ASSERT_TRUE(std::regex_search(page, found,
                                std::regex("<div class=\"tip\" style=[^>]*><div><span>step "
                                           "10</span></div><div><svg.*?</svg><span>one</span><b>([0-9.]+)</b>")));
  EXPECT_NEAR(std::stod(found[1]), last, 1e-3 * last);
}

TEST_F(Browser, DrawsEveryTrialOfASearch) {
  make_search();
  ASSERT_EQ(report({study().string()}).status, 0);
  const std::string page = drawn();
  const auto count = [&](const std::string& text) {
    int64_t found = 0;
    for (size_t at = 0; (at = page.find(text, at)) != std::string::npos; at += text.size()) ++found;
    return found;
  };
  // Each of the four trials that ended: in the front, in two histories, by four settings for two objectives, and as a
  // line.
  for (int64_t trial = 0; trial < 6; ++trial)
    EXPECT_EQ(count(fmt::format("data-trial=\"{}\"", trial)), trial == 2 || trial == 3 ? 0 : 1 + 2 + 8 + 1) << trial;
  for (const int64_t failed : {2, 3})
    EXPECT_EQ(count(fmt::format("data-failed=\"{}\"", failed)), 2) << "in the two histories";
  EXPECT_THAT(page, HasSubstr("its run failed with status 1, see "));
  EXPECT_EQ(count("data-key=\"optim.lr\""), 2) << "its importance to both objectives";
}

}  // namespace
}  // namespace modular
