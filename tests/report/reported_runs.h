// Fixture with runs, a search, and the report page made from them.
#pragma once

#include <map>

#include "tests/modrun/modrun_process.h"

namespace modular {

class ReportedRuns : public ModrunTest {
 protected:
  std::filesystem::path study() const { return folder_.path() / "study"; }
  std::filesystem::path page() const { return folder_.path() / "report.html"; }

  Finished report(const std::vector<std::string>& folders) const {
    return modrun(with(with({"report"}, folders), {"--out", page().string()}));
  }

  /// Makes a run of ten steps with three evaluations on two ranks, and the same with experts, stopped after six steps
  /// and resumed.
  void make_runs() const {
    const std::vector<std::string> evaluated = {"--set", "eval.every=4", "--set", "eval.metrics=accuracy"};
    const auto one = train("one", evaluated, {"--nproc-per-node", "2"});
    ASSERT_EQ(one.status, 0) << one.output;
    const auto experts = with(evaluated, {"--set", "model.entry=mixtral", "--set", "model.config.num_local_experts=4",
                                          "--set", "model.config.num_key_value_heads=4", "--set", "optim.lr=1e-3"});
    ASSERT_EQ(train("experts", with(experts, {"--set", "train.steps=6"})).status, 0);
    ASSERT_EQ(train("experts", with(experts, {"--resume"})).status, 0);
  }

  /// Makes a search with two objectives, some of whose trials fail.
  void make_search() const {
    const auto config = folder_.write(
        "search.toml",
        get_bytes(config_) + "[checkpoint]\nevery = -1\n[search]\nbackend = 'grid'\ndir = '" + study().string() +
            "'\nobjective = ['held_out_loss', 'memory_peak']\n[search.space]\noptim.lr = [1e-3, 1e30, 1e-2]\n"
            "optim.warmup_steps = [0]\noptim.max_grad_norm = [0]\ntrain.steps = { low = 3, high = 4 }\n");
    const auto searched = modrun({"search", config.string()});
    ASSERT_EQ(searched.status, 0) << searched.output;
  }

  std::vector<std::string> all() const {
    return {run_folder("one").string(), run_folder("experts").string(), study().string()};
  }

  /// Returns every number of a run's steps and evaluations in metrics.jsonl, by name and step.
  std::map<std::string, std::map<int64_t, double>> numbers(const std::string& run) const {
    std::map<std::string, std::map<int64_t, double>> found;
    for (const auto& step : steps(run))
      for (const auto& [name, value] : step.items())
        if (name != "step") found[name][step["step"]] = value;
    for (const auto& evaluation : events(run, "evaluation")) {
      found["held_out_loss"][evaluation["step"]] = evaluation["held_out_loss"];
      for (const auto& [name, value] : evaluation["metrics"].items()) found[name][evaluation["step"]] = value;
    }
    return found;
  }
};

}  // namespace modular
