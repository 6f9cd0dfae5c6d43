#include "runtime/search/python_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/config/config.h"

namespace modular {
namespace {

using Json = nlohmann::json;

// Each program is its helper after the definitions that the helpers share.
// clang-format off
constexpr const char* kOptunaProgram =
#include "runtime/search/sampled_values.inc"
#include "runtime/search/optuna_helper.inc"
    ;
constexpr const char* kRayProgram =
#include "runtime/search/sampled_values.inc"
#include "runtime/search/ray_helper.inc"
    ;
// clang-format on

Json to_json(const Trial& trial) {
  if (trial.failure.empty()) return {{"trial", trial.number}, {"values", trial.values}};
  return {{"trial", trial.number}, {trial.pruned ? "pruned" : "failure", trial.failure}};
}

PythonHelper start_helper(const SearchConfig& config) {
  try {
    return PythonHelper(config.python, config.backend, config.backend == "ray" ? kRayProgram : kOptunaProgram);
  } catch (const std::runtime_error& error) {
    throw ConfigError(
        fmt::format("search.backend is {}, which runs in Python: {}: set search.python", config.backend, error.what()));
  }
}

/// Sends a question; an error in the answer becomes a ConfigError.
void ask_or_throw(PythonHelper& helper, const std::string& backend, const Json& question) {
  try {
    helper.ask(question);
  } catch (const std::runtime_error& error) {
    throw ConfigError(fmt::format("search.backend is {}: {}", backend, error.what()));
  }
}

/// Globally unique name of the study's folder: host and absolute path.
std::string get_location(const SearchConfig& config) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), std::filesystem::absolute(config.dir).lexically_normal().string());
}

}  // namespace

PythonBackend::PythonBackend(const SearchConfig& config) : config_(config), helper_(start_helper(config)) {
  ask_or_throw(helper_, config_.backend, {{"sampler", config_.sampler}});
}

void PythonBackend::open(const std::vector<Trial>& ended, int64_t workers) {
  const Json identity = Json::parse(to_identity(config_));
  const auto file = config_.dir / "study.db";
  const std::string folder_name = (config_.dir / "").parent_path().filename().string();
  Json question = {{"storage", config_.storage.empty() ? "sqlite:///" + file.string() : config_.storage},
                   {"study", config_.study.empty() ? folder_name : config_.study},
                   {"shared", !config_.study.empty()},
                   {"location", get_location(config_)},
                   {"journal", (config_.dir / "ray.jsonl").string()},
                   {"workers", workers},
                   {"sampler", config_.sampler},
                   {"pruner", config_.pruner},
                   {"seed", config_.seed},
                   {"minimize", Json::array()},
                   {"space", identity.at("space")},
                   {"ended", Json::array()}};
  for (const Objective& objective : config_.objectives) question["minimize"].push_back(objective.minimize);
  for (const Trial& trial : ended) question["ended"].push_back(to_json(trial));
  ask_or_throw(helper_, config_.backend, question);
}

std::pair<int64_t, TrialConfig> PythonBackend::next() {
  const Json answer = ask({{"ask", true}});
  TrialConfig settings;
  for (const Dimension& dimension : config_.space)
    settings.emplace_back(dimension.key, answer.at("settings").at(dimension.key).get<std::string>());
  return {answer.at("trial").get<int64_t>(), std::move(settings)};
}

bool PythonBackend::should_prune(int64_t trial, int64_t step, double value) {
  return ask({{"running", trial}, {"step", step}, {"value", value}}).at("prune").get<bool>();
}

void PythonBackend::tell(const Trial& trial) { ask(to_json(trial)); }

nlohmann::json PythonBackend::ask(const nlohmann::json& question) {
  try {
    return helper_.ask(question);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        fmt::format("{}, which samples the values, cannot continue: {}", config_.backend, error.what()));
  }
}

}  // namespace modular
