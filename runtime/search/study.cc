#include "runtime/search/study.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/config/config.h"
#include "runtime/config/renamed_keys.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const Trial& trial, const std::vector<Objective>& objectives) {
  OrderedJson json = {{"trial", trial.number}};
  for (const auto& [key, value] : trial.settings) json["settings"][key] = value;
  if (trial.failure.empty())
    for (size_t i = 0; i < objectives.size(); ++i) json["values"][objectives[i].name] = trial.values[i];
  else
    json["failure"] = trial.failure;
  if (trial.pruned) json["pruned"] = true;
  json["seconds"] = trial.seconds;
  return json;
}

Trial trial_from(const Json& json, const std::vector<Objective>& objectives) {
  Trial trial{.number = json.at("trial"),
              .failure = json.value("failure", ""),
              .pruned = json.value("pruned", false),
              .seconds = json.at("seconds")};
  for (const auto& [key, value] : json.at("settings").items()) trial.settings.emplace_back(key, value);
  if (trial.failure.empty())
    for (const Objective& objective : objectives) {
      const Json& values = json.at("values");
      const auto loss = objective.name == kLossNow ? find_val_loss(values) : values.end();
      trial.values.push_back(loss != values.end() ? *loss : values.at(objective.name));
    }
  return trial;
}

/// Whether `other` is at least as good in all objectives and better in one.
bool is_dominated(const Trial& trial, const Trial& other, const std::vector<Objective>& objectives) {
  bool better = false;
  for (size_t i = 0; i < objectives.size(); ++i) {
    if (is_better(trial.values[i], other.values[i], objectives[i])) return false;
    better = better || is_better(other.values[i], trial.values[i], objectives[i]);
  }
  return better;
}

/// Whether `trial` is better by `objective`, the study's first, or ties and has the lower number. Independent of the
/// order of completion.
bool is_before(const Trial& trial, const Trial& other, const Objective& objective) {
  if (is_better(trial.values[0], other.values[0], objective)) return true;
  return trial.number < other.number && !is_better(other.values[0], trial.values[0], objective);
}

/// Returns an error for a trial's settings, which are sorted by key; empty if they are valid.
std::string find_problem(const Trial& trial, const std::vector<Dimension>& space) {
  for (const Dimension& dimension : space) {
    const auto setting = std::ranges::lower_bound(trial.settings, dimension.key, {}, &TrialConfig::value_type::first);
    if (setting == trial.settings.end() || setting->first != dimension.key)
      return fmt::format("it has no {}", dimension.key);
    const char* const text = setting->second.c_str();
    char* end = nullptr;
    if (dimension.choices.empty() && (!std::isfinite(std::strtod(text, &end)) || end == text || *end != '\0'))
      return fmt::format("its {} is not a number", dimension.key);
  }
  return {};
}

/// Reads the trials of `file` from its second line on, which is next in `lines`. Appends these lines to `kept`.
std::vector<Trial> read_trials(LineReader& lines, const fs::path& file, const std::vector<Objective>& objectives,
                               std::string& kept) {
  std::vector<Trial> trials;
  std::set<int64_t> numbers;
  std::string line;
  for (int64_t number = 2; lines.next(line); ++number) {
    if (lines.is_cut_off()) break;  // an incomplete line: the trial was not recorded
    if (std::ssize(trials) == most_trials(objectives.size()))
      throw ConfigError(fmt::format("{}:{}: has more than {} trials, the limit for a study with {} objective{}",
                                    file.string(), number, trials.size(), objectives.size(),
                                    objectives.size() == 1 ? "" : "s"));
    try {
      Trial trial = trial_from(Json::parse(line), objectives);
      if (!numbers.insert(trial.number).second)
        throw ConfigError(fmt::format("{}:{}: duplicate trial {}", file.string(), number, trial.number));
      trials.push_back(std::move(trial));
    } catch (const Json::exception& error) {
      throw ConfigError(fmt::format("{}:{}: not a trial of this study ({}): restore the file, or remove the line",
                                    file.string(), number, json_problem(error)));
    }
    kept += line + "\n";
  }
  return trials;
}

/// Replaces keys and metrics of earlier versions by their current names in the first line of a study.
std::string with_current_names(std::string line) {
  const auto replace = [&](const std::string& before, const std::string& now) {
    for (size_t at = line.find(before); at != std::string::npos; at = line.find(before, at + now.size()))
      line.replace(at, before.size(), now);
  };
  // The config is a JSON string, whose line breaks are escaped.
  for (const auto& [before, now] : kRenamedKeys)
    replace(fmt::format("\\n{} = ", before.substr(before.find('.') + 1)),
            fmt::format("\\n{} = ", now.substr(now.find('.') + 1)));
  replace(fmt::format("\"name\":\"{}\"", kLossBefore), fmt::format("\"name\":\"{}\"", kLossNow));
  return line;
}

/// Reads the trials of a file that must begin with `head`, and appends their lines to `head`.
std::vector<Trial> resume_trials(const fs::path& file, const fs::path& folder, const std::vector<Objective>& objectives,
                                 std::string& head) {
  LineReader lines(file);
  std::string line;
  lines.next(line);
  if (line + "\n" != head && with_current_names(line) + "\n" != head)
    throw ConfigError(
        fmt::format("{} holds a study with a different space, seed, backend, objective or base "
                    "config: use another search.dir, or restore the config",
                    folder.string()));
  return read_trials(lines, file, objectives, head);
}

/// SQLite deletes the file that the end of a journal names. Only multi-database journals have one, and Optuna's never
/// do.
void check_journal(const fs::path& journal) {
  constexpr std::array<unsigned char, 8> kEndOfName = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  const OpenFile file = open_to_read(journal);
  std::array<unsigned char, 8> end{};
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < std::ssize(end)) return;
  if (::pread(file.get(), end.data(), end.size(), size - std::ssize(end)) != std::ssize(end))
    throw std::runtime_error(fmt::format("{} cannot be read: {}", journal.string(), std::strerror(errno)));
  if (end == kEndOfName)
    throw ConfigError(
        fmt::format("{} names another file, which SQLite would delete; Optuna does not write such journals: remove "
                    "the journal, or use another search.dir",
                    journal.string()));
}

/// Validates the files that the backends' helpers or SQLite open themselves, by name.
void check_helper_files(const fs::path& folder) {
  for (const char* name :
       {"study.db", "study.db-journal", "study.db-wal", "study.db-shm", "ray.jsonl", "ray.jsonl.new"})
    if (is_there(folder / name)) open_to_read(folder / name);
  if (is_there(folder / "study.db-journal")) check_journal(folder / "study.db-journal");
}

}  // namespace

bool is_better(double value, double other, const Objective& objective) {
  return objective.minimize ? value < other : value > other;
}

const Trial* best_trial(const std::vector<Trial>& trials, const std::vector<Objective>& objectives) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials)
    if (trial.failure.empty() && (!best || is_before(trial, *best, objectives[0]))) best = &trial;
  return best;
}

std::vector<const Trial*> pareto_front(const std::vector<Trial>& trials, const std::vector<Objective>& objectives) {
  std::vector<const Trial*> front;
  for (const Trial& trial : trials) {
    if (!trial.failure.empty()) continue;
    const bool dominated = std::ranges::any_of(
        trials, [&](const Trial& other) { return other.failure.empty() && is_dominated(trial, other, objectives); });
    if (!dominated) front.push_back(&trial);
  }
  return front;
}

StudyRecord read_study(const fs::path& folder) {
  const fs::path file = folder / "trials.jsonl";
  LineReader lines(file);
  std::string line;
  if (!lines.next(line)) throw ConfigError(fmt::format("{} is empty: restore the file", file.string()));
  StudyRecord record;
  try {
    const Json parsed = parse_json(line);
    if (parsed.is_discarded())
      throw ConfigError(
          fmt::format("{}:1: invalid study header ({}): restore the file", file.string(), json_problem(line)));
    record.config = config_from_identity(parsed.at("study").dump());
  } catch (const Json::exception& error) {
    throw ConfigError(
        fmt::format("{}:1: invalid study header ({}): restore the file", file.string(), json_problem(error)));
  }
  if (record.config.objectives.empty())
    throw ConfigError(fmt::format("{}:1: has no objective: restore the file", file.string()));
  std::string kept;
  record.trials = read_trials(lines, file, record.config.objectives, kept);
  for (size_t i = 0; i < record.trials.size(); ++i)
    if (const auto problem = find_problem(record.trials[i], record.config.space); !problem.empty())
      throw ConfigError(fmt::format("{}:{}: not a trial of this study ({}): restore the file, or remove the line",
                                    file.string(), i + 2, problem));
  return record;
}

void check_study_folder(const SearchConfig& config, bool resumes) {
  const bool has_study = is_there(config.dir / "trials.jsonl");
  if (has_study && !resumes)
    throw ConfigError(
        fmt::format("{} holds a study: resume it with --resume, or use another search.dir", config.dir.string()));
  if (!has_study && resumes) throw ConfigError(fmt::format("{} holds no study to resume", config.dir.string()));
  for (const char* leftover : {"trials", "best.toml", "pareto", "study.db", "study.db-journal", "ray.jsonl"})
    if (!has_study && is_there(config.dir / leftover))
      throw ConfigError(fmt::format("{} belongs to another study: move it away, or use another search.dir",
                                    (config.dir / leftover).string()));
}

Study::Study(const SearchConfig& config, const std::string& base, bool resumes, std::vector<std::string> programs)
    : config_(config), programs_(std::move(programs)) {
  const fs::path file = config.dir / "trials.jsonl";
  check_study_folder(config, resumes);
  for (const char* name : {"trials", "pareto"}) check_no_links({config.dir, name});
  check_helper_files(config.dir);
  fs::create_directories(config.dir / "trials");
  lock_.emplace(config.dir);
  std::string kept = OrderedJson{{"study", OrderedJson::parse(to_identity(config))}, {"config", base}}.dump() + "\n";
  if (resumes) trials_ = resume_trials(file, config.dir, config.objectives, kept);
  write_file(file, kept);
  out_.open(file, std::ios::app);
}

fs::path Study::run_folder(int64_t trial) const {
  const fs::path name = fs::path("trials") / fmt::format("{:04}", trial);
  check_no_links({config_.dir, name / "logs"});
  return config_.dir / name;
}

void Study::add(Trial trial) {
  out_ << to_json(trial, config_.objectives).dump() << '\n' << std::flush;
  if (!out_)
    throw std::runtime_error(
        fmt::format("{} cannot be written: {}", (config_.dir / "trials.jsonl").string(), std::strerror(errno)));
  trials_.push_back(std::move(trial));
}

void Study::write_winners() const {
  const auto write = [&](const Trial& trial, const fs::path& file) {
    RunConfig run = read_run_config(run_folder(trial.number) / "config.toml", programs_, ConfigSource::run_folder);
    run.train.dir = fs::absolute(fs::path(file).replace_extension()).string();
    write_file(file, format_toml(run));
  };
  if (config_.objectives.size() == 1) {
    if (const Trial* const winner = best()) write(*winner, config_.dir / "best.toml");
    return;
  }
  fs::create_directories(config_.dir / "pareto");
  std::set<fs::path> files;
  for (const Trial* trial : pareto())
    write(*trial, *files.insert(config_.dir / "pareto" / fmt::format("{:04}.toml", trial->number)).first);
  for (const auto& entry : fs::directory_iterator(config_.dir / "pareto"))
    if (entry.path().extension() == ".toml" && !files.contains(entry.path()))
      fs::remove(entry.path());  // dominated by a newer trial
}

}  // namespace modular
