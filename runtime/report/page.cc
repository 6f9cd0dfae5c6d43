#include "runtime/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "runtime/metrics/metrics.h"

namespace modular {
namespace {

double compute_mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Unnormalized covariance: the sum over i of (a[i] - mean(a)) * (b[i] - mean(b)).
double scatter(std::span<const double> a, std::span<const double> b) {
  const double a_mean = compute_mean(a), b_mean = compute_mean(b);
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - a_mean) * (b[i] - b_mean);
  return sum;
}

}  // namespace

std::vector<double> compute_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2.0;
  }
  return ranks;
}

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> a_ranks = compute_ranks(a), b_ranks = compute_ranks(b);
  const double spread = scatter(a_ranks, a_ranks) * scatter(b_ranks, b_ranks);
  if (!(spread > 0.0)) return std::nullopt;
  return scatter(a_ranks, b_ranks) / std::sqrt(spread);
}

std::optional<double> variance_between(std::span<const size_t> groups, std::span<const double> values) {
  const std::vector<double> ranks = compute_ranks(values);
  const double total = scatter(ranks, ranks), mean = compute_mean(ranks);
  const std::set<size_t> names(groups.begin(), groups.end());
  if (names.size() < 2 || !(total > 0.0)) return std::nullopt;
  double between = 0.0;
  for (const size_t name : names) {
    std::vector<double> members;
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i] == name) members.push_back(ranks[i]);
    between += static_cast<double>(members.size()) * std::pow(compute_mean(members) - mean, 2);
  }
  return between / total;
}

std::optional<Importance> compute_importance(const Dimension& dimension, std::span<const std::string> inputs,
                                             std::span<const double> values) {
  if (inputs.size() < 3) return std::nullopt;
  const auto degrees_of_freedom = static_cast<double>(inputs.size() - 1);
  if (dimension.choices.empty()) {
    std::vector<double> numbers;
    for (const std::string& input : inputs) numbers.push_back(std::strtod(input.c_str(), nullptr));
    const auto correlation = rank_correlation(numbers, values);
    if (!correlation) return std::nullopt;
    return Importance{
        .share = *correlation * *correlation, .by_chance = 1.0 / degrees_of_freedom, .correlation = correlation};
  }
  std::vector<size_t> groups;
  for (const std::string& input : inputs)
    groups.push_back(static_cast<size_t>(std::ranges::find(dimension.choices, input) - dimension.choices.begin()));
  const auto share = variance_between(groups, values);
  if (!share) return std::nullopt;
  const auto tried = static_cast<double>(std::set(groups.begin(), groups.end()).size());
  return Importance{.share = *share, .by_chance = (tried - 1.0) / degrees_of_freedom};
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kStyle =
#include "runtime/report/style.css.inc"
    ;
constexpr const char* kPrograms[] = {
#include "runtime/report/charts.js.inc"
    ,
#include "runtime/report/runs.js.inc"
    ,
#include "runtime/report/searches.js.inc"
};

// The content security policy forbids all network access.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>modrun report</title>
)";

/// Rounds to seven digits, the precision of float32; null if not finite.
Json shown(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.7g}", value).c_str(), nullptr);
}

Json shown(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (const double value : values) numbers.push_back(shown(value));
  return numbers;
}

Json shown(const Series& series) {
  const Thinned thin = thinned(series, kMostPoints);
  Json json = {{"name", series.name},
               {"points", series.steps.size()},
               {"steps", thin.points.steps},
               {"values", shown(thin.points.values)}};
  if (!thin.means.steps.empty()) json["mean_steps"] = thin.means.steps, json["means"] = shown(thin.means.values);
  return json;
}

Json shown(const std::vector<Series>& all) {
  Json json = Json::array();
  for (const Series& series : all)
    if (!series.steps.empty()) json.push_back(shown(series));
  return json;
}

Json shown(const std::vector<Note>& notes) {
  Json json = Json::array();
  for (const Note& note : notes) json.push_back({{"step", note.step}, {"text", note.text}});
  return json;
}

/// Adds the last and the best validation loss.
void add_losses(Json& json, const RunHistory& run) {
  const auto losses = std::ranges::find(run.evaluations, "val_loss", &Series::name);
  if (losses == run.evaluations.end() || losses->steps.empty()) return;
  json["last_loss"] = shown(losses->values.back());
  size_t best = losses->values.size();
  for (size_t i = 0; i < losses->values.size(); ++i)
    if (std::isfinite(losses->values[i]) && (best == losses->values.size() || losses->values[i] < losses->values[best]))
      best = i;
  if (best == losses->values.size()) return;
  json["best_loss"] = shown(losses->values[best]);
  json["best_step"] = losses->steps[best];
}

/// Adds the mean throughput over all steps, and the peak memory.
void add_speed(Json& json, const RunHistory& run) {
  const Series *seconds = run.find_steps("seconds"), *rates = run.find_steps("tokens_per_second"),
               *memory = run.find_steps("memory_peak");
  if (seconds && rates && rates->values.size() == seconds->values.size()) {
    double tokens = 0.0, sum = 0.0;
    for (size_t i = 0; i < rates->values.size(); ++i) {
      tokens += rates->values[i] * seconds->values[i];
      sum += seconds->values[i];
    }
    if (sum > 0.0) json["tokens_per_second"] = shown(tokens / sum);
  }
  if (memory && !memory->values.empty()) json["memory_peak"] = shown(std::ranges::max(memory->values));
}

Json shown(const RunHistory& run, const std::string& name) {
  Json json = {{"name", name}, {"folder", as_utf8(run.folder.string())}};
  const auto set = [&](const char* key, const char* option) {
    if (const auto found = run.config.find(option); found != run.config.end()) json[key] = found->second;
  };
  set("entry", "model.entry");
  set("planned", "train.steps");
  if (!run.mesh.empty()) json["mesh"] = run.mesh;
  if (run.parameters) json["parameters"] = *run.parameters;
  if (const Series* loss = run.find_steps("loss"); loss && !loss->steps.empty()) json["last_step"] = loss->steps.back();
  add_losses(json, run);
  add_speed(json, run);
  json["ended"] = run.has_ended;
  json["stopped_by"] = run.stopped_by;
  json["time"] = {{"before_steps", shown(run.time.before_steps)},
                  {"computing", shown(run.time.computing)},
                  {"waiting", shown(run.time.waiting)},
                  {"between", shown(run.time.between)}};
  json["events"] = shown(run.events);
  json["samples"] = shown(run.samples);
  json["steps"] = shown(run.steps);
  json["evaluations"] = shown(run.evaluations);
  return json;
}

/// Returns the folders' names, or full paths for duplicate names.
std::vector<std::string> get_names(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders)
    names.push_back((folder / "").lexically_normal().parent_path().filename().string());
  const std::vector<std::string> short_names = names;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty() || std::ranges::count(short_names, short_names[i]) > 1) names[i] = folders[i].string();
  std::ranges::transform(names, names.begin(), as_utf8);
  return names;
}

/// Config keys whose values differ between runs, except train.dir. Each has one value per run, null if unset.
Json differences(const std::vector<RunHistory>& runs) {
  std::set<std::string> keys;
  for (const RunHistory& run : runs)
    for (const auto& [key, value] : run.config) keys.insert(key);
  keys.erase("train.dir");
  Json json = Json::array();
  for (const std::string& key : keys) {
    Json values = Json::array();
    for (const RunHistory& run : runs) {
      const auto found = run.config.find(key);
      values.push_back(found != run.config.end() ? Json(found->second) : Json());
    }
    if (std::ranges::any_of(values, [&](const Json& value) { return value != values.front(); }))
      json.push_back({{"key", key}, {"values", std::move(values)}});
  }
  return json;
}

std::string option_value(const Trial& trial, const std::string& key) {
  return std::ranges::find(trial.settings, key, &TrialConfig::value_type::first)->second;
}

Json shown(const Dimension& dimension) {
  Json json = {{"key", dimension.key}};
  if (!dimension.choices.empty()) {
    json["choices"] = dimension.choices;
    return json;
  }
  json.update({{"low", shown(dimension.low)}, {"high", shown(dimension.high)}, {"log", dimension.log}});
  return json;
}

/// Importance of each dimension for each objective, indexed [objective][dimension].
Json importances(const StudyRecord& study) {
  Json by_objective = Json::array();
  for (size_t objective = 0; objective < study.config.objectives.size(); ++objective) {
    Json by_dimension = Json::array();
    for (const Dimension& dimension : study.config.space) {
      std::vector<std::string> inputs;
      std::vector<double> values;
      for (const Trial& trial : study.trials) {
        if (!trial.failure.empty()) continue;
        inputs.push_back(option_value(trial, dimension.key));
        values.push_back(trial.values[objective]);
      }
      const auto importance = compute_importance(dimension, inputs, values);
      Json json;
      if (importance) json = {{"share", shown(importance->share)}, {"by_chance", shown(importance->by_chance)}};
      if (importance && importance->correlation) json["correlation"] = shown(*importance->correlation);
      by_dimension.push_back(std::move(json));
    }
    by_objective.push_back(std::move(by_dimension));
  }
  return by_objective;
}

Json shown(const SearchHistory& search, const std::string& name) {
  const StudyRecord& study = search.study;
  Json json = {{"name", name}, {"folder", as_utf8(search.folder.string())}, {"backend", study.config.backend}};
  if (study.config.backend == "optuna") json["sampler"] = study.config.sampler;
  json["objectives"] = Json::array(), json["space"] = Json::array(), json["trials"] = Json::array();
  for (const Objective& objective : study.config.objectives)
    json["objectives"].push_back({{"name", objective.name}, {"minimize", objective.minimize}});
  for (const Dimension& dimension : study.config.space) json["space"].push_back(shown(dimension));
  for (const Trial& trial : study.trials) {
    Json& entry = json["trials"].emplace_back(Json{{"number", trial.number}, {"settings", Json::array()}});
    for (const Dimension& dimension : study.config.space)
      entry["settings"].push_back(option_value(trial, dimension.key));
    if (trial.failure.empty())
      entry["values"] = shown(trial.values);
    else
      entry["failure"] = trial.failure;
    entry["seconds"] = shown(trial.seconds);
  }
  json["winners"] = Json::array();
  if (study.config.objectives.size() > 1)
    for (const Trial* trial : pareto_front(study.trials, study.config.objectives))
      json["winners"].push_back(trial->number);
  else if (const Trial* best = best_trial(study.trials, study.config.objectives))
    json["winners"].push_back(best->number);
  json["importance"] = importances(study);
  return json;
}

/// Serializes JSON for embedding in HTML, which only needs "<" to be escaped.
std::string within_html(const Json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      escaped += "\\u003c";
    else
      escaped += c;
  }
  return escaped;
}

template <class History>
Json all_shown(const std::vector<History>& histories) {
  std::vector<fs::path> folders;
  for (const History& history : histories) folders.push_back(history.folder);
  const std::vector<std::string> names = get_names(folders);
  Json json = Json::array();
  for (size_t i = 0; i < histories.size(); ++i) json.push_back(shown(histories[i], names[i]));
  return json;
}

}  // namespace

std::string report_page(const std::vector<RunHistory>& runs, const std::vector<SearchHistory>& searches) {
  const Json data = {{"runs", all_shown(runs)}, {"differences", differences(runs)}, {"searches", all_shown(searches)}};
  std::string page = kHead;
  page.append("<style>\n").append(kStyle).append("</style>\n</head>\n<body>\n");
  page.append("<noscript>This page needs JavaScript, which is disabled.</noscript>\n<main></main>\n");
  page.append("<script type=\"application/json\" id=\"data\">").append(within_html(data)).append("</script>\n");
  page.append("<script>\n\"use strict\";\n");
  for (const char* program : kPrograms) page.append(program);
  return page.append("</script>\n</body>\n</html>\n");
}

}  // namespace modular
