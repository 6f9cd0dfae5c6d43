#include "runtime/search/trial_values.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "runtime/config/renamed_keys.h"
#include "runtime/files/open_file.h"
#include "runtime/launch/process.h"
#include "runtime/metrics/metrics.h"
#include "runtime/search/own_objective.h"

namespace modular {

Pruning::Pruning(std::filesystem::path run, Objective objective,
                 std::function<bool(int64_t step, double value)> should_prune)
    : metrics_(std::move(run) / "metrics.jsonl"),
      objective_(std::move(objective)),
      should_prune_(std::move(should_prune)) {}

bool Pruning::check() {
  if (!reason_.empty()) return true;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(metrics_, error);
  if (error || bytes == std::exchange(bytes_, bytes)) return false;
  const std::vector<Evaluation> evaluations = read_evaluations(metrics_);
  for (; seen_ < evaluations.size(); ++seen_) {
    const Evaluation& evaluation = evaluations[seen_];
    const auto metric = std::ranges::find(evaluation.metrics, objective_.name, &std::pair<std::string, double>::first);
    double value = NAN;
    if (objective_.name == "val_loss" && evaluation.targets > 0) value = evaluation.loss;
    if (metric != evaluation.metrics.end()) value = metric->second;
    if (!std::isfinite(value) || !should_prune_(evaluation.step, value)) continue;  // no backend compares NaN
    reason_ = fmt::format("pruned after step {}, with {} {:.6g}", evaluation.step, objective_.name, value);
    return true;
  }
  return false;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::map<std::string, double> read_run_numbers(const fs::path& run) {
  const fs::path file = run / "metrics.jsonl";
  std::map<std::string, double> found, ends;
  const std::vector<Evaluation> evaluations = read_evaluations(file);
  const auto last =
      std::find_if(evaluations.rbegin(), evaluations.rend(), [](const Evaluation& e) { return e.targets > 0; });
  if (last != evaluations.rend()) {
    found.insert(last->metrics.begin(), last->metrics.end());
    found["val_loss"] = last->loss;
    found[std::string(kLossBefore)] = last->loss;  // for a user's objectives, which look it up by name
  }
  std::optional<LineReader> lines;
  if (is_there(file)) lines.emplace(file);
  for (std::string line; lines && lines->next(line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("event", Json()) != "end") continue;  // one end event per part of the run
    const auto number = [&](const char* name) {
      const auto value = json.find(name);
      return value != json.end() && value->is_number() ? value->get<double>() : 0.0;
    };
    for (const char* name : {"seconds", "samples", "tokens"}) ends[name] += number(name);
    ends["memory_peak"] = std::max(ends["memory_peak"], number("memory_peak"));
  }
  found.insert({{"seconds", ends["seconds"]}, {"memory_peak", ends["memory_peak"]}});
  if (ends["seconds"] > 0.0) {
    found["samples_per_second"] = ends["samples"] / ends["seconds"];
    found["tokens_per_second"] = ends["tokens"] / ends["seconds"];
  }
  return found;
}

std::string read_last_line(const fs::path& file) {
  LineReader lines(file);
  std::string last;
  for (std::string line; lines.next(line);)
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  return last;
}

/// Runs a shell command to completion and returns its wait status, as from waitpid(2).
int run_command(const std::string& command, const std::vector<std::string>& variables, const fs::path& output,
                const fs::path& error) {
  const Signals signals;
  const OpenFile out = open_to_write(output, O_CREAT | O_TRUNC), err = open_to_write(error, O_CREAT | O_TRUNC);
  const pid_t process = start_process({"/bin/sh", "-c", command}, child_environment(variables, {"MODULAR_LAUNCHED"}),
                                      {.input = -1, .output = out.get(), .error = err.get()});
  const int end = open_pidfd(process);
  int status = 0, interrupted_by = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    pollfd events[] = {{end, POLLIN, 0}, {signals.descriptor(), POLLIN, 0}};
    poll(events, 2, -1);
    while (const auto signal = signals.next()) {
      if (!asks_to_end(*signal)) continue;
      kill(-process, interrupted_by == 0 ? *signal : SIGKILL);
      interrupted_by = *signal;
    }
  }
  close(end);
  kill(-process, SIGKILL);  // its remaining child processes
  if (interrupted_by != 0) throw Interrupted{interrupted_by};
  return status;
}

double run_objective_command(const std::string& command, const Trial& trial, const fs::path& folder) {
  const fs::path output = folder / "logs/objective.out", error = folder / "logs/objective.err";
  const int status = run_command(command,
                                 {fmt::format("MODULAR_TRIAL_DIR={}", fs::absolute(folder).string()),
                                  fmt::format("MODULAR_TRIAL={}", trial.number)},
                                 output, error);
  const std::string last_error = read_last_line(error);
  if (status != 0)
    throw std::runtime_error(fmt::format("search.objective_command {}{}{}",
                                         WIFSIGNALED(status)
                                             ? fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)))
                                             : fmt::format("ended with status {}", WEXITSTATUS(status)),
                                         last_error.empty() ? "" : ": ", last_error));
  const std::string line = read_last_line(output);
  char* end = nullptr;
  const double value = std::strtod(line.c_str(), &end);
  const bool is_number = end != line.c_str() && std::string(end).find_first_not_of(" \t\r") == std::string::npos;
  if (is_number && std::isfinite(value)) return value;
  throw std::runtime_error(fmt::format("search.objective_command must print a finite number as its last line, but {}",
                                       line.empty() ? "printed nothing" : fmt::format("that is \"{}\"", line)));
}

/// Calls an objective with termination signals unblocked, so that they end this process. Otherwise they would stay
/// pending for Signals.
double call_objective(const OwnObjective& own, const EndedRun& run) {
  sigset_t termination, before;
  sigemptyset(&termination);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&termination, signal);
  sigprocmask(SIG_UNBLOCK, &termination, &before);
  const auto restore = c10::make_scope_exit([&] { sigprocmask(SIG_SETMASK, &before, nullptr); });
  return own.value(run);
}

}  // namespace

std::vector<double> compute_trial_values(const SearchConfig& config, const Trial& trial, const fs::path& folder) {
  const EndedRun run{.folder = folder, .numbers = read_run_numbers(folder)};
  std::vector<double> values;
  for (const auto& [name, minimize] : config.objectives) {
    if (name == kCommandObjective && !config.objective_command.empty()) {
      values.push_back(run_objective_command(config.objective_command, trial, folder));
      continue;
    }
    const auto own = std::ranges::find(own_objectives(), name, &OwnObjective::name);
    const auto number = run.numbers.find(name);
    const bool is_own = own != own_objectives().end();
    const double value = is_own ? call_objective(*own, run) : number != run.numbers.end() ? number->second : NAN;
    if (!std::isfinite(value)) throw std::runtime_error(fmt::format("the run has no finite value of {}", name));
    values.push_back(value);
  }
  return values;
}

}  // namespace modular
