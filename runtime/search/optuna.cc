#include "runtime/search/optuna.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/train/config.h"

namespace modular {
namespace {

using Json = nlohmann::json;

constexpr const char* kProgram =
#include "runtime/search/optuna_helper.inc"
    ;

Json to_json(const Trial& trial) {
  if (trial.failure.empty()) return {{"trial", trial.number}, {"values", trial.values}};
  return {{"trial", trial.number}, {trial.pruned ? "pruned" : "failure", trial.failure}};
}

PythonHelper started(const SearchConfig& config) {
  try {
    return PythonHelper(config.python, kProgram);
  } catch (const std::runtime_error& error) {
    throw ConfigError(
        fmt::format("search.backend is optuna, which runs in Python: {}: set search.python", error.what()));
  }
}

/// Asks what is answered with an error where the config is wrong.
void ask_or_refuse(PythonHelper& helper, const Json& question) {
  try {
    helper.ask(question);
  } catch (const std::runtime_error& error) {
    throw ConfigError(fmt::format("search.backend is optuna: {}", error.what()));
  }
}

}  // namespace

Optuna::Optuna(const SearchConfig& config) : config_(config), helper_(started(config)) {
  ask_or_refuse(helper_, Json::object());
}

void Optuna::open(const std::vector<Trial>& ended) {
  const Json identity = Json::parse(identity_of(config_));
  const auto file = config_.dir / "study.db";
  Json question = {{"storage", config_.storage.empty() ? "sqlite:///" + file.string() : config_.storage},
                   {"study", (config_.dir / "").parent_path().filename().string()},
                   {"sampler", config_.sampler},
                   {"pruner", config_.pruner},
                   {"seed", config_.seed},
                   {"minimize", Json::array()},
                   {"space", identity.at("space")},
                   {"ended", Json::array()}};
  for (const Objective& objective : config_.objectives) question["minimize"].push_back(objective.minimize);
  for (const Trial& trial : ended) question["ended"].push_back(to_json(trial));
  ask_or_refuse(helper_, question);
}

std::pair<int64_t, TrialSettings> Optuna::next() {
  const Json answer = helper_.ask({{"ask", true}});
  TrialSettings settings;
  for (const Dimension& dimension : config_.space)
    settings.emplace_back(dimension.key, answer.at("settings").at(dimension.key).get<std::string>());
  return {answer.at("trial").get<int64_t>(), std::move(settings)};
}

bool Optuna::is_hopeless(int64_t trial, int64_t step, double value) {
  return helper_.ask({{"running", trial}, {"step", step}, {"value", value}}).at("prune").get<bool>();
}

void Optuna::tell(const Trial& trial) { helper_.ask(to_json(trial)); }

}  // namespace modular
