#include "runtime/report/run_history.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/checkpoint/json_text.h"
#include "runtime/config/renamed_keys.h"
#include "runtime/config/toml_values.h"
#include "runtime/data/files.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

/// Returns the indices in [begin, end) of the minimum, the maximum and the first value that is not finite, in order.
std::set<size_t> extremes(const std::vector<double>& values, size_t begin, size_t end) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t least = kNone, largest = kNone, not_finite = kNone;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) {
      not_finite = std::min(not_finite, i);
      continue;
    }
    if (least == kNone || values[i] < values[least]) least = i;
    if (largest == kNone || values[i] > values[largest]) largest = i;
  }
  std::set<size_t> indices = {least, largest, not_finite};
  indices.erase(kNone);
  return indices;
}

/// Returns the mean of the finite values in [begin, end); NaN if none is finite.
double compute_mean(const std::vector<double>& values, size_t begin, size_t end) {
  double sum = 0.0;
  int64_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) continue;
    sum += values[i];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void Series::add(int64_t step, double value) {
  steps.push_back(step);
  values.push_back(std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN());
}

void Series::forget_from(int64_t step) {
  const auto first = std::ranges::lower_bound(steps, step);
  values.resize(static_cast<size_t>(first - steps.begin()));
  steps.erase(first, steps.end());
}

Thinned thinned(const Series& series, size_t max_points) {
  const size_t count = series.steps.size();
  if (count <= max_points) return {.points = series, .means = {.name = series.name}};
  const bool all_finite = std::ranges::all_of(series.values, [](double value) { return std::isfinite(value); });
  const size_t inner = count - 2, buckets = std::max<size_t>((max_points - 2) / (all_finite ? 2 : 3), 1);
  Thinned result{.points = {.name = series.name}, .means = {.name = series.name}};
  const auto keep = [&](size_t i) { result.points.add(series.steps[i], series.values[i]); };
  keep(0);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = 1 + bucket * inner / buckets, end = 1 + (bucket + 1) * inner / buckets;
    if (begin == end) continue;
    for (const size_t i : extremes(series.values, begin, end)) keep(i);
    result.means.add(series.steps[end - 1], compute_mean(series.values, begin, end));
  }
  keep(count - 1);
  return result;
}

namespace {

namespace fs = std::filesystem;
using JsonValue = nlohmann::json;

constexpr int kMaxDepth = 100;        // JSON nesting depth of a line
constexpr size_t kMostSeries = 1000;  // per run, for steps and for evaluations; every repeated line scans all

void flatten(const std::string& prefix, const toml::table& table, std::map<std::string, std::string>& config) {
  for (const auto& [key, value] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const auto* inner = value.as_table())
      flatten(path + ".", *inner, config);
    else
      config[current_key(path)] = get_text(value);
  }
}

std::map<std::string, std::string> read_config_keys(const fs::path& file) {
  std::map<std::string, std::string> config;
  if (is_there(file)) flatten("", parse_toml_file(file), config);
  return config;
}

/// Converts a number of a line; null stands for a value that is not finite. Throws std::runtime_error otherwise.
double to_number(const std::string& name, const JsonValue& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) throw std::runtime_error(name + " is not a number");
  return value.get<double>();
}

double number_at(const JsonValue& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) throw std::runtime_error(fmt::format("it has no {}", name));
  return to_number(name, *found);
}

std::string text_at(const JsonValue& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return {};
  if (!found->is_string()) throw std::runtime_error(fmt::format("{} is not a string", name));
  return found->get<std::string>();
}

std::optional<int64_t> integer_at(const JsonValue& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return std::nullopt;
  if (!found->is_number_integer()) throw std::runtime_error(fmt::format("{} is not an integer", name));
  return found->get<int64_t>();
}

/// Series in insertion order with lookup by name.
class NamedSeries {
 public:
  explicit NamedSeries(std::vector<Series>& all) : all_(all) {}

  Series& operator[](const std::string& name) {
    const auto [found, is_new] = indices_.emplace(name, all_.size());
    if (is_new && all_.size() == kMostSeries)
      throw std::runtime_error(fmt::format("the run has more than {} distinct metric names", kMostSeries));
    return is_new ? all_.emplace_back(Series{.name = name}) : all_[found->second];
  }

 private:
  std::vector<Series>& all_;
  std::unordered_map<std::string, size_t> indices_;
};

/// Parses a line of metrics.jsonl into `line`; returns false if it is not JSON. `keys` receives the keys of its objects
/// in order.
bool parse_line(const std::string& text, JsonValue& line, std::vector<std::string>& keys) {
  bool too_deep = false;
  keys.clear();
  const auto look = [&](int depth, JsonValue::parse_event_t event, const JsonValue& parsed) {
    if (event == JsonValue::parse_event_t::key) keys.push_back(parsed.get<std::string>());
    return !(too_deep = too_deep || depth > kMaxDepth);
  };
  line = JsonValue::parse(text, look, /*allow_exceptions=*/false);
  return !too_deep && !line.is_discarded();
}

void forget_from(int64_t step, std::vector<Series>& all) {
  for (Series& series : all) series.forget_from(step);
}

/// Adds the numbers of `object` under `keys`, in the order of `keys`. "set" is skipped: it names a training set.
void add_numbers(int64_t step, const JsonValue& object, const std::vector<std::string>& keys, NamedSeries& all) {
  std::set<std::string_view> added;
  for (const std::string& name : keys) {
    const auto found = object.find(name);
    if (name != "step" && name != "set" && found != object.end() && added.insert(name).second)
      all[current_metric(name)].add(step, to_number(name, *found));
  }
}

/// Consumes metrics.jsonl line by line.
class Reader {
 public:
  explicit Reader(RunHistory& run) : run_(run), steps_(run.steps), evaluations_(run.evaluations) {}

  /// Reads a line whose keys, in order, are `keys`. Throws std::runtime_error if it is invalid.
  void read(const JsonValue& line, const std::vector<std::string>& keys) {
    if (!line.is_object()) throw std::runtime_error("it is not an object");
    constexpr int64_t kMostSteps = int64_t{1} << 53;  // largest exact integer in JavaScript
    const auto step = integer_at(line, "step");
    if (!step || *step < 0 || *step > kMostSteps) throw std::runtime_error("it has no step");
    const std::string event = text_at(line, "event");
    if (event.empty()) read_step(*step, line, keys);
    if (event == "start") read_start(*step, line);
    if (event == "evaluation") read_evaluation(*step, line, keys);
    if (event == "rollback") read_rollback(*step, line);
    if (event == "sample") samples_.emplace(*step, text_at(line, "text"));
    if (event == "end") read_end(line);
  }

  void finish() {
    for (auto& [step, text] : samples_) run_.samples.push_back({step, std::move(text)});
  }

 private:
  void read_step(int64_t step, const JsonValue& line, const std::vector<std::string>& keys) {
    if (step <= last_step_) forget(step);
    last_step_ = step;
    add_numbers(step, line, keys, steps_);
    const double seconds = number_at(line, "seconds"),
                 waiting = line.contains("data_wait") ? number_at(line, "data_wait") : 0.0;
    run_.time.computing += seconds - waiting;
    run_.time.waiting += waiting;
    part_seconds_ += seconds;
  }

  void read_start(int64_t step, const JsonValue& line) {
    run_.ranks = integer_at(line, "ranks");
    run_.parameters = integer_at(line, "parameters");
    run_.mesh = text_at(line, "mesh");
    run_.has_ended = false;
    run_.stopped_by.clear();
    run_.time.before_steps += number_at(line, "start_to_first_step");
    part_seconds_ = 0.0;
    if (step > 0) run_.events.push_back({step, fmt::format("resumed after step {} on {}", step, run_.mesh)});
    forget(step + 1);
  }

  void read_evaluation(int64_t step, const JsonValue& line, const std::vector<std::string>& keys) {
    forget_from(step, run_.evaluations);
    // An evaluation without targets has neither a loss nor metrics.
    const auto loss = find_val_loss(line);
    if (integer_at(line, "targets") == 0 && loss == line.end()) return;
    if (loss == line.end()) throw std::runtime_error("it has no val_loss");
    evaluations_["val_loss"].add(step, to_number("val_loss", *loss));
    const auto metrics = line.find("metrics");
    if (metrics == line.end()) return;
    if (!metrics->is_object()) throw std::runtime_error("metrics is not an object");
    add_numbers(step, *metrics, keys, evaluations_);
  }

  void read_rollback(int64_t step, const JsonValue& line) {
    const auto failed = integer_at(line, "failed_step");
    run_.events.push_back(
        {step, fmt::format("rolled back to step {}", step) + (failed ? fmt::format(" from step {}", *failed) : "")});
    forget(step + 1);
  }

  void read_end(const JsonValue& line) {
    run_.has_ended = true;
    run_.stopped_by = text_at(line, "stopped_by");
    run_.time.between += std::max(number_at(line, "seconds") - part_seconds_, 0.0);
    part_seconds_ = 0.0;
  }

  /// Discards everything recorded for `step` and later steps, which will be repeated.
  void forget(int64_t step) {
    forget_from(step, run_.steps);
    forget_from(step, run_.evaluations);
    samples_.erase(samples_.lower_bound(step), samples_.end());
    last_step_ = std::min(last_step_, step - 1);
  }

  RunHistory& run_;
  NamedSeries steps_, evaluations_;
  std::multimap<int64_t, std::string> samples_;  // by step
  int64_t last_step_ = 0;
  double part_seconds_ = 0.0;  // seconds of the steps since the last start or end
};

}  // namespace

const Series* RunHistory::find_steps(const std::string& name) const {
  const auto found = std::ranges::find(steps, name, &Series::name);
  return found != steps.end() ? &*found : nullptr;
}

RunHistory read_run_history(const fs::path& folder) {
  RunHistory run{.folder = folder, .config = read_config_keys(folder / "config.toml")};
  const fs::path file = folder / "metrics.jsonl";
  LineReader lines(file);
  Reader reader(run);
  std::string text;
  std::vector<std::string> keys;
  JsonValue line;
  for (int64_t number = 1; lines.next(text); ++number) {
    const bool is_json = parse_line(text, line, keys);
    if (!is_json && lines.is_cut_off()) break;  // the line is still being written
    try {
      if (!is_json) throw std::runtime_error(json_problem(text));
      reader.read(line, keys);
    } catch (const std::runtime_error& error) {
      throw DataError(fmt::format("{}:{}: invalid line of a run's metrics ({}): restore the file, or remove the line",
                                  file.string(), number, error.what()));
    }
  }
  reader.finish();
  return run;
}

}  // namespace modular
