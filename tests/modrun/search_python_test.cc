// What draws values in Python: Ray Tune draws what it draws by itself, several machines share a study of Optuna, and a
// helper that dies ends the search and loses nothing.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "tests/modrun/search_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class SearchPython : public SearchCommand {
 protected:
  static std::string backend(const std::string& name, const std::string& sampler, int trials) {
    return "backend = '" + name + "'\nsampler = '" + sampler +
           "'\npython = '" PARITY_PYTHON "'\ntrials = " + std::to_string(trials) + "\n";
  }

  /// The last line that a Python program prints, as JSON.
  json python(const std::string& program) const {
    const auto ended = testing::end_of_program(testing::start_program({PARITY_PYTHON, "-c", program}, folder_.path()));
    EXPECT_EQ(ended.status, 0) << ended.output;
    return ended.status == 0 ? json::parse(ended.lines.back()) : json();
  }

  static std::string get_helper(pid_t process) { return get_bytes(fmt::format("/proc/{}/cmdline", process)); }
};

// As a user of Tune writes the space kSpace.
constexpr const char* kTuneSpace = "{'optim.lr': tune.loguniform(1e-4, 1e-1), 'train.batch_size': tune.choice([4, 8])}";

TEST_F(SearchPython, RayTunesOwnSearchAlgorithmsAgreeToTheBit) {
  ASSERT_EQ(search(backend("ray", "random", 4) + kSpace).status, 0);
  json theirs = python(
      fmt::format("import json; from ray import tune; from ray.tune.search.basic_variant import BasicVariantGenerator\n"
                  "tune.register_trainable('none', lambda config: None)\n"
                  "generator = BasicVariantGenerator(random_state=1)\n"
                  "generator.add_configurations({{'it': {{'run': 'none', 'num_samples': 4, 'config': {}}}}})\n"
                  "print(json.dumps([generator.next_trial().config for _ in range(4)]))",
                  kTuneSpace));
  const auto expect_theirs = [&] {
    const auto all = trials();
    ASSERT_EQ(all.size(), 4u);
    for (size_t i = 0; i < 4; ++i)
      for (const auto& [key, value] : theirs[i].items())
        EXPECT_EQ(std::stod(all[i]["settings"][key].get<std::string>()), value.get<double>()) << i << " " << key;
  };
  expect_theirs();
  const auto expect_like = [&](const std::string& sampler, const std::string& searcher) {
    fs::remove_all(study());
    ASSERT_EQ(search(backend("ray", sampler, 4) + kSpace).status, 0);
    json values = json::array();
    for (const json& one : trials()) values.push_back(one["values"]["held_out_loss"]);
    theirs = python(fmt::format(
        "import json; from ray import tune; from ray.tune.search.optuna import OptunaSearch; "
        "from ray.tune.search.hyperopt import HyperOptSearch\n"
        "searcher = {}; searcher.set_search_properties(None, None, {})\n"
        "drawn = []\n"
        "for number, value in enumerate({}):\n"
        "  drawn.append(searcher.suggest(str(number))); searcher.on_trial_complete(str(number), {{'loss': value}})\n"
        "print(json.dumps(drawn))",
        searcher, kTuneSpace, values.dump()));
    expect_theirs();
  };
  expect_like("tpe", "OptunaSearch(metric='loss', mode='min', seed=1)");
  expect_like("hyperopt", "HyperOptSearch(metric='loss', mode='min', random_state_seed=1)");
}

TEST_F(SearchPython, RayGoesOnAfterAKillWithWhatItWouldHaveDrawn) {
  const std::string text = backend("ray", "tpe", 5) + kSpace;
  ASSERT_EQ(search(text).status, 0);
  const auto undisturbed = trials();
  fs::remove_all(study());
  kill_after_two_trials(config(text));
  const auto run = search(text, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i]["trial"], i);
    EXPECT_EQ(all[i]["settings"], undisturbed[i]["settings"]);
    EXPECT_EQ(all[i]["values"], undisturbed[i]["values"]);
  }
  // What it answered is checked when it is asked again.
  std::string journal = get_bytes(study() / "ray.jsonl");
  journal.replace(journal.find("\"optim.lr\": \"0.00"), 16, "\"optim.lr\": \"0.01");
  std::ofstream(study() / "ray.jsonl") << journal;
  const auto other = search(text, {"--resume"});
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("ray.jsonl:1: another version of Ray"));
  EXPECT_EQ(trials(), all);
}

TEST_F(SearchPython, RaysAshaEndsATrialThatIsFarBehind) {
  const auto run =
      search(backend("ray", "random", 9) + "seed = 1\npruner = 'asha'\n[search.space]\noptim.lr = [3e-3, 2e-3, 1e-9]\n",
             {"--set", "train.steps=200", "--set", "eval.every=20", "--set", "optim.schedule=constant"});
  ASSERT_EQ(run.status, 0) << run.output;
  int hopeless = 0;
  for (const json& trial : trials()) {
    const json end = events_in(trial_folder(trial["trial"].get<int64_t>()), "end").back();
    EXPECT_EQ(end["steps"] < 200, trial.contains("pruned")) << trial;
    hopeless += trial.contains("pruned") && trial["settings"]["optim.lr"] == "1e-09";
    if (trial.contains("values")) EXPECT_NE(trial["settings"]["optim.lr"], "1e-09") << trial;
  }
  EXPECT_GT(hopeless, 0) << run.output;
}

TEST_F(SearchPython, DrawsEveryKindOfRangeWithinItsEnds) {
  const std::string space =
      "[search.space]\noptim.weight_decay = { low = 0.1, high = 0.35, step = 0.1 }\n"
      "train.steps = { low = 1, high = 3 }\noptim.warmup_steps = { low = 1, high = 4, log = true }\n"
      "optim.lr = { low = 0.001, high = 0.002 }\nmodel.config.hidden_act = ['silu', 'gelu']\n";
  const auto run = search(backend("ray", "random", 6) + space);
  ASSERT_EQ(run.status, 0) << run.output;
  for (const json& one : trials()) {
    EXPECT_TRUE(one.contains("values")) << one;
    const auto number = [&](const char* key) { return std::stod(one["settings"][key].get<std::string>()); };
    EXPECT_THAT(number("optim.weight_decay"),
                ::testing::AnyOf(::testing::DoubleNear(0.1, 1e-9), ::testing::DoubleNear(0.2, 1e-9),
                                 ::testing::DoubleNear(0.3, 1e-9)));
    EXPECT_THAT(one["settings"]["train.steps"], ::testing::AnyOf("1", "2", "3"));
    EXPECT_THAT(one["settings"]["optim.warmup_steps"], ::testing::AnyOf("1", "2", "3", "4"));
    EXPECT_THAT(number("optim.lr"), ::testing::AllOf(::testing::Ge(0.001), ::testing::Le(0.002)));
  }
}

TEST_F(SearchPython, WithoutRayOrASamplerThatItHasIsRejectedBeforeATrial) {
  const auto bare = folder_.write("python", std::string("#!/bin/sh\nexec ") + PARITY_PYTHON + " -I -S \"$@\"\n");
  fs::permissions(bare, fs::perms::owner_all);
  const auto rejected = search("backend = 'ray'\npython = '" + bare.string() + "'\n" + kSpace);
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("search.backend is ray: Python has no package ray: "));
  EXPECT_THAT(rejected.output, HasSubstr(" -m pip install \"ray[tune]\""));
  EXPECT_FALSE(fs::exists(study()));
  const auto sampler = search(backend("ray", "gp", 2) + kSpace);
  EXPECT_EQ(sampler.status, 2) << sampler.output;
  EXPECT_THAT(sampler.output, HasSubstr("search.sampler is \"gp\": with Ray it must be one of random, tpe, hyperopt"));
  EXPECT_THAT(search(backend("optuna", "hyperopt", 2) + kSpace).output,
              HasSubstr("search.sampler is \"hyperopt\": with Optuna it must be one of tpe, random, nsga2, gp"));
  const auto without =
      folder_.write("without", std::string("#!/bin/sh\nexec ") + PARITY_PYTHON +
                                   " -c 'import importlib.util as util, sys; find = util.find_spec\n"
                                   "util.find_spec = lambda name, *more: None if name == "
                                   "\"hyperopt\" else find(name, *more)\nexec(sys.argv.pop(1))' \"$2\" \"$3\"\n");
  fs::permissions(without, fs::perms::owner_all);
  const auto package = search("backend = 'ray'\nsampler = 'hyperopt'\npython = '" + without.string() + "'\n" + kSpace);
  EXPECT_EQ(package.status, 2) << package.output;
  EXPECT_THAT(package.output, HasSubstr("and Python has no package hyperopt: "));
  EXPECT_FALSE(fs::exists(study())) << "nothing is begun";
}

TEST_F(SearchPython, AHelperThatDiesEndsTheSearchAndWhatWasFoundIsKept) {
  const std::string text = backend("optuna", "tpe", 4) + kSpace;
  const auto started = start(config(text), {"--set", "train.steps=100"});
  testing::await(started, [&] { return !trials().empty(); });
  for (const pid_t child : testing::child_processes(started.pid))
    if (get_helper(child).starts_with(PARITY_PYTHON)) ::kill(child, SIGKILL);
  const auto ended = testing::end_of_program(started);
  EXPECT_EQ(ended.status, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("modrun: optuna, which samples the values, cannot continue: " PARITY_PYTHON
                                      " ended without an answer; results of completed trials are kept: modrun search "
                                      "--resume continues"));
  const auto before = trials();
  ASSERT_FALSE(before.empty());
  ASSERT_LT(before.size(), 4u);
  const auto run = search(text, {"--resume", "--set", "train.steps=100"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before.size())), before);
}

// A study that is there already, whoever finds it: modrun by its folder, or the library when it is asked for values.
TEST_F(SearchPython, AStudyThatIsThereIsOneMessageAndNoTraceback) {
  for (const char* name : {"optuna", "ray"}) {
    fs::remove_all(study());
    const std::string text = backend(name, "random", 1) + kSpace;
    ASSERT_EQ(search(text).status, 0);
    const auto again = search(text);
    EXPECT_EQ(again.status, 2);
    EXPECT_EQ(again.output,
              "modrun: " + study().string() + " holds a study: resume it with --resume, or use another search.dir\n");
  }
  const std::string shared = backend("optuna", "random", 1) + "study = 'shared'\nstorage = 'sqlite:///" +
                             (folder_.path() / "shared.db").string() + "'\n[search.space]\ntrain.batch_size = ";
  ASSERT_EQ(search(shared + "[4, 8]\n", {"--set", "search.dir=" + (folder_.path() / "one").string()}).status, 0);
  const auto other = search(shared + "[4, 6]\n", {"--set", "search.dir=" + (folder_.path() / "two").string()});
  EXPECT_EQ(other.status, 1) << other.output;
  EXPECT_THAT(other.output, HasSubstr("modrun: optuna, which samples the values, cannot continue: ValueError: "));
  EXPECT_THAT(other.output, ::testing::Not(HasSubstr("Traceback")));
}

TEST_F(SearchPython, SeveralMachinesShareAStudyOfOptuna) {
  const std::string database = "sqlite:///" + (folder_.path() / "shared.db").string();
  const std::string text = backend("optuna", "random", 3) + "study = 'shared'\nstorage = '" + database + "'\n" + kSpace;
  const auto folder = [&](const char* name) {
    return Words{"--set", "search.dir=" + (folder_.path() / name).string()};
  };
  const auto numbers = [&](const char* name) {
    std::set<int64_t> found;
    for (const json& one : read_study(folder_.path() / name)) found.insert(one["trial"].get<int64_t>());
    return found;
  };
  // One machine is in the middle of its first trial when another one comes, goes, and comes again.
  const auto first = start(config(text), with(folder("one"), {"--set", "train.steps=300"}));
  testing::await_output(first, "trial 0 (1 of 3)");
  const Words other = with(folder("two"), {"--set", "train.steps=3"});
  ASSERT_EQ(search(text, with(other, {"--trials", "1"})).status, 0);
  const auto run = search(text, with(other, {"--resume"}));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(testing::end_of_program(first).status, 0);
  const auto one = numbers("one"), two = numbers("two");
  EXPECT_EQ(one.size(), 3u);
  EXPECT_EQ(two.size(), 3u);
  const json states =
      python("import json, optuna; study = optuna.load_study(study_name='shared', storage='" + database +
             "'); print(json.dumps([[t.state.name, t.params['optim.lr']] for t in study.trials]))");
  ASSERT_EQ(states.size(), 6u);
  std::set<double> rates;
  for (const json& state : states) {
    EXPECT_EQ(state[0], "COMPLETE");
    rates.insert(state[1].get<double>());
  }
  EXPECT_EQ(rates.size(), 6u) << "each machine draws its own";
  EXPECT_FALSE(two.contains(0)) << "which the first machine ran";
  const auto maximizing = search(text + "", with(folder("three"), {"--set", "search.direction=maximize"}));
  EXPECT_EQ(maximizing.status, 2) << maximizing.output;
  EXPECT_THAT(maximizing.output, HasSubstr("has directions minimize, and this search maximize"));
}

}  // namespace
}  // namespace modular
