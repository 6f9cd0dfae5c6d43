// Files that a report reads: the metrics of a run, and the trials of a search.
#include <array>

#include "runtime/report/page.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

namespace modular::fuzz {
namespace {

using nlohmann::json;

/// The lines with one of them changed; sometimes the file is cut off.
std::string damaged(const std::vector<json>& lines, std::span<const std::string_view> keys, Random& random) {
  const size_t changed = random.below(lines.size());
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i)
    text += (i == changed ? mutated_json_text(lines[i], keys, random) : lines[i].dump()) + "\n";
  if (random.one_in(8)) text.resize(random.below(text.size() + 1));
  return text;
}

Input make_report(Random& random) {
  static constexpr std::array<std::string_view, 10> kOfRuns = {"event", "step", "seconds",  "loss",    "data_wait",
                                                               "start", "end",  "rollback", "metrics", "failed_step"};
  static constexpr std::array<std::string_view, 8> kOfSearches = {"study",   "trial", "settings", "values",
                                                                  "failure", "low",   "choices",  "log"};
  static const std::string kConfig = "[optim]\nlr = 0.1\n[model]\nentry = 'llama'\n";
  static const std::vector<json> run = {
      {{"event", "start"},
       {"step", 0},
       {"ranks", 1},
       {"mesh", "1 rank"},
       {"parameters", 9},
       {"start_to_first_step", 0.5}},
      {{"step", 1},
       {"loss", 2.5},
       {"seconds", 0.5},
       {"data_wait", 0.1},
       {"tokens_per_second", 10.0},
       {"memory_peak", 1 << 30}},
      {{"event", "evaluation"}, {"step", 1}, {"val_loss", 2.0}, {"targets", 8}, {"metrics", {{"accuracy", 0.5}}}},
      {{"step", 2},
       {"loss", nullptr},
       {"seconds", 0.5},
       {"data_wait", 0.1},
       {"tokens_per_second", 10.0},
       {"memory_peak", 1 << 30}},
      {{"event", "rollback"}, {"step", 1}, {"failed_step", 3}},
      {{"event", "sample"}, {"step", 1}, {"text", "</script>"}},
      {{"event", "end"}, {"step", 1}, {"seconds", 3.5}, {"stopped_by", "SIGTERM"}}};
  static const std::vector<json> search = {
      json::parse(R"({"study": {"backend": "random", "seed": 1,
                      "objectives": [{"name": "val_loss", "minimize": true}, {"name": "memory_peak", "minimize": true}],
                      "space": [{"key": "optim.lr", "low": 0.1, "high": 1.0, "step": 0, "log": true, "whole": false},
                                {"key": "optim.name", "choices": ["'sgd'", "'adamw'"]}]}, "config": ""})"),
      json::parse(
          R"({"trial": 0, "settings": {"optim.lr": "0.2", "optim.name": "'sgd'"}, "values": {"val_loss": 2, "memory_peak": 5}, "seconds": 1})"),
      json::parse(
          R"({"trial": 1, "settings": {"optim.lr": "0.3", "optim.name": "'sgd'"}, "failure": "no room", "seconds": 1})"),
      json::parse(
          R"({"trial": 2, "settings": {"optim.lr": "0.4", "optim.name": "'adamw'"}, "values": {"val_loss": 3, "memory_peak": 4}, "seconds": 1})"),
      json::parse(
          R"({"trial": 3, "settings": {"optim.lr": "0.5", "optim.name": "'adamw'"}, "values": {"val_loss": 1, "memory_peak": 9}, "seconds": 1})")};
  return {{{"config.toml", random.one_in(4) ? mutated_text(kConfig, {}, random) : kConfig},
           {"metrics.jsonl", damaged(run, kOfRuns, random)},
           {"trials.jsonl", damaged(search, kOfSearches, random)}},
          {}};
}

/// One of the two, chosen by the input.
void read_report(const Input& input) {
  if (input.files.at("metrics.jsonl").size() % 2 == 0)
    report_page({read_run_history(".")}, {});
  else
    report_page({}, {{".", read_study(".")}});
}

}  // namespace

std::vector<Reader> report_readers() {
  return {{"report",
           "metrics of runs and trials of searches",
           make_report,
           read_report,
           {"metrics.jsonl", "trials.jsonl", "config.toml"}}};
}

}  // namespace modular::fuzz
