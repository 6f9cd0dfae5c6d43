#include "runtime/search/run_trials.h"

#include <poll.h>
#include <signal.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/launch/process.h"
#include "runtime/mesh/print.h"
#include "runtime/search/trial_values.h"

namespace modular {

std::vector<std::string> assign_gpus(int64_t gpus, const std::string& visible, int64_t ranks, int64_t workers) {
  if (gpus < ranks * workers)
    throw ConfigError(
        fmt::format("--workers {} with {} each need {} GPUs, and this machine has {}: start fewer, or set train.device "
                    "to cpu",
                    workers, ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), ranks * workers, gpus));
  std::vector<std::string> names;
  std::istringstream in(visible);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  for (auto i = static_cast<int64_t>(names.size()); i < gpus; ++i) names.push_back(std::to_string(i));
  std::vector<std::string> trials;
  for (auto first = names.begin(); static_cast<int64_t>(trials.size()) < workers; first += ranks)
    trials.push_back(fmt::format("{}", fmt::join(first, first + ranks, ",")));
  return trials;
}

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kPollMilliseconds = 100;  // poll interval of evaluations if there is a pruner

struct Running {
  Trial trial;
  int64_t slot = 0;
  std::unique_ptr<BackgroundTask> task;
  std::optional<Pruning> pruning;
  bool was_pruned = false;
  Clock::time_point start = Clock::now();
};

/// Prints the log of a failed trial's launcher.
void show_log(const fs::path& log) {
  std::ifstream in(log);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  print_to(stderr, "{}", text);
}

class Trials {
 public:
  Trials(const SearchConfig& config, Study& study, PythonBackend* backend, int64_t workers, const StartTrial& start)
      : config_(config), study_(study), backend_(backend), workers_(workers), start_(start) {}

  int run() {
    while (true) {
      try {
        while (!is_ending() && static_cast<int64_t>(running_.size()) < workers_ && remaining() > 0) start_next();
        if (running_.empty()) break;
        wait();
        settle_ended();
        if (!is_ending() && !config_.pruner.empty()) prune();
      } catch (const std::exception& error) {
        if (!broken_.empty()) throw;
        broken_ = error.what();
        forward(SIGTERM);
      }
    }
    if (!broken_.empty()) {
      print_to(stderr, "modrun: {}; results of completed trials are kept: modrun search --resume continues\n", broken_);
      return 1;
    }
    if (!interrupted_by_ || remaining() == 0) return 0;
    print_to(stdout, "the search was interrupted: modrun search --resume continues with {}\n",
             interrupted_ == 1 ? "this trial" : fmt::format("these {} trials", interrupted_));
    return 128 + *interrupted_by_;
  }

 private:
  bool is_ending() const { return interrupted_by_ || !broken_.empty(); }
  int64_t remaining() const { return config_.trials - static_cast<int64_t>(study_.trials().size() + running_.size()); }

  /// Returns the smallest number that no trial has.
  int64_t free_number() const {
    std::set<int64_t> taken;
    for (const Trial& trial : study_.trials()) taken.insert(trial.number);
    for (const Running& running : running_) taken.insert(running.trial.number);
    int64_t number = 0;
    for (const int64_t used : taken)
      if (used == number) ++number;
    return number;
  }

  void start_next() {
    Running next;
    if (backend_) {
      std::tie(next.trial.number, next.trial.settings) = backend_->next();
    } else {
      next.trial.number = free_number();
      next.trial.settings = make_trial_config(config_, next.trial.number);
    }
    const auto is_taken = [&](const Running& other) { return other.slot == next.slot; };
    while (std::ranges::any_of(running_, is_taken)) ++next.slot;
    print_to(stdout, "trial {} ({} of {})  {}\n", next.trial.number, config_.trials - remaining() + 1, config_.trials,
             shown(next.trial.settings));
    const int64_t number = next.trial.number;
    if (!config_.pruner.empty())
      next.pruning.emplace(
          study_.run_folder(number), config_.objectives.front(),
          [this, number](int64_t step, double value) { return backend_->should_prune(number, step, value); });
    try {
      next.task = start_(next.trial, next.slot);
    } catch (const std::exception& error) {
      next.trial.failure = error.what();
      record(next);
      return;
    }
    running_.push_back(std::move(next));
  }

  void wait() {
    std::vector<pollfd> events = {{signals_.descriptor(), POLLIN, 0}};
    for (const Running& trial : running_) events.push_back({trial.task->descriptor(), POLLIN, 0});
    poll(events.data(), events.size(), is_ending() || config_.pruner.empty() ? -1 : kPollMilliseconds);
    while (const auto signal = signals_.next()) {
      if (asks_to_end(*signal)) {
        if (!interrupted_by_)
          print_to(stderr, "modrun: forwarded SIG{} to {}; send a second signal to kill {}\n", sigabbrev_np(*signal),
                   running_.size() == 1 ? "the trial" : "the trials", running_.size() == 1 ? "it" : "them");
        interrupted_by_ = *signal;
      }
      forward(*signal);
    }
  }

  void forward(int signal) const {
    for (const Running& trial : running_) trial.task->signal(signal);
  }

  void settle_ended() {
    for (size_t i = 0; i < running_.size();) {
      const auto outcome = running_[i].task->outcome();
      if (!outcome) {
        ++i;
        continue;
      }
      Running ended = std::move(running_[i]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      settle(ended, *outcome);
    }
  }

  void settle(Running& ended, const BackgroundTask::Outcome& outcome) {
    Trial& trial = ended.trial;
    const fs::path logs = study_.run_folder(trial.number) / "logs";
    if (outcome.status == 0) {
      const Json answer = Json::parse(outcome.answer);
      if (answer.contains("values")) trial.values = answer.at("values").get<std::vector<double>>();
      trial.failure = answer.value("failure", "");
    } else if (asks_to_end(outcome.status - 128)) {
      if (!ended.was_pruned) {  // interrupted, which is not a failure
        ++interrupted_;
        if (is_ending()) return;
        interrupted_by_ = outcome.status - 128;  // the signal was sent only to this trial's ranks
        forward(*interrupted_by_);
        return;
      }
      trial.pruned = true;
      trial.failure = ended.pruning->reason();
    } else {
      show_log(logs / "launcher.log");
      trial.failure = outcome.answer.empty()
                          ? fmt::format("its run failed with status {}, see {}", outcome.status, logs.string())
                          : outcome.answer;
    }
    record(ended);
  }

  void record(Running& ended) {
    Trial& trial = ended.trial;
    trial.seconds = std::chrono::duration<double>(Clock::now() - ended.start).count();
    print_to(stdout, "{}  {}  in {:.1f} s\n", workers_ > 1 ? fmt::format("  trial {}", trial.number) : "",
             shown(trial, config_.objectives), trial.seconds);
    study_.add(trial);
    study_.write_winners();
    if (backend_ && broken_.empty()) backend_->tell(trial);
  }

  void prune() {
    for (Running& trial : running_) {
      if (trial.was_pruned || !trial.pruning->check()) continue;
      trial.was_pruned = true;
      trial.task->signal(SIGTERM);
    }
  }

  const SearchConfig& config_;
  Study& study_;
  PythonBackend* backend_;
  int64_t workers_;
  const StartTrial& start_;
  const Signals signals_;
  std::vector<Running> running_;
  std::optional<int> interrupted_by_;
  int64_t interrupted_ = 0;  // number of interrupted trials
  std::string broken_;       // reason why the search cannot continue
};

}  // namespace

std::string format_answer(const std::vector<double>& values) { return Json{{"values", values}}.dump(); }

std::string format_failure(const std::string& failure) {
  return Json{{"failure", failure}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrialConfig make_trial_config(const SearchConfig& config, int64_t number) {
  return config.backend == "grid" ? grid_point(config.space, number) : sample_config(config.space, config.seed, number);
}

int run_trials(const SearchConfig& config, Study& study, PythonBackend* backend, int64_t workers,
               const StartTrial& start) {
  return Trials(config, study, backend, workers, start).run();
}

std::string shown(const TrialConfig& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

std::string shown(const Trial& trial, const std::vector<Objective>& objectives) {
  if (!trial.failure.empty()) return trial.failure;
  std::string text;
  for (size_t i = 0; i < objectives.size(); ++i)
    text += fmt::format("{}{} {:.6g}", i == 0 ? "" : ", ", objectives[i].name, trial.values[i]);
  return text;
}

}  // namespace modular
