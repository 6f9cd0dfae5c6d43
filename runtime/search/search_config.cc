#include "runtime/search/search_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/config/config_field.h"
#include "runtime/config/toml_values.h"
#include "runtime/evaluation/metric.h"
#include "runtime/search/own_objective.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// Objectives to minimize, in addition to metrics with that direction.
constexpr std::array<std::string_view, 3> kMinimized = {"held_out_loss", "memory_peak", "seconds"};

constexpr std::array<std::string_view, 13> kKeys = {
    "backend", "sampler",   "pruner",    "storage",           "study", "python", "trials", "seed",
    "dir",     "objective", "direction", "objective_command", "space"};

/// A key that must not come from a run's folder, because it names something outside of that folder.
struct UntrustedKey {
  std::string_view key, names, use;
};
constexpr std::array<UntrustedKey, 5> kUntrustedKeys = {{{"objective_command", "a program", "run"},
                                                         {"python", "a program", "run"},
                                                         {"storage", "a database", "opened"},
                                                         {"study", "a study in a database", "opened"},
                                                         {"dir", "a folder", "written to"}}};

/// Backends and their pruners.
const std::map<std::string, std::vector<std::string>> kPruners = {
    {"random", {}}, {"grid", {}}, {"optuna", {"median", "hyperband"}}, {"ray", {"median", "asha"}}};

constexpr int64_t kDefaultTrials = 20;

bool has_sampler(const SearchConfig& config) { return config.backend == "optuna" || config.backend == "ray"; }

[[noreturn]] void reject(const std::string& where, const std::string& message) {
  throw ConfigError(where + ": " + message);
}

std::string to_location(const fs::path& file, const toml::node& node) {
  return fmt::format("{}:{}:{}", file.string(), node.source().begin.line, node.source().begin.column);
}

Dimension read_range(const std::string& key, const toml::table& table, const std::string& where) {
  Dimension range{.key = key};
  const toml::node *low = nullptr, *high = nullptr, *step = nullptr;
  for (const auto& [name, node] : table) {
    const auto number = [&]() -> const toml::node* {
      if (!node.is_number())
        reject(where, fmt::format("{}: {} must be a number, but is {}", key, name.str(), describe(node)));
      return &node;
    };
    if (name == "low") {
      low = number();
    } else if (name == "high") {
      high = number();
    } else if (name == "step") {
      step = number();
    } else if (name == "log" && node.is_boolean()) {
      range.log = node.as_boolean()->get();
    } else {
      reject(where, fmt::format("{}: a range has low, high, step and log = true or false, not {}", key, name.str()));
    }
  }
  if (!low || !high) reject(where, fmt::format("{}: a range needs low and high", key));
  range.low = to_number(*low), range.high = to_number(*high), range.step = step ? to_number(*step) : 0.0;
  range.integral = low->is_integer() && high->is_integer() && (!step || step->is_integer());
  if (!(range.low <= range.high))
    reject(where,
           fmt::format("{}: the range from {} to {} is empty: its low is above its high", key, range.low, range.high));
  constexpr double kLargest = 0x1p53;  // all integers up to this are exact doubles
  if (range.integral && (range.low < -kLargest || range.high > kLargest))
    reject(where, fmt::format("{}: a range of integers must lie within ±2^53, but is from {} to {}", key, range.low,
                              range.high));
  if (range.step > 0.0 && (range.high - range.low) / range.step > kLargest)
    reject(where, fmt::format("{}: step {} is so small that the range has more than 2^53 values", key, range.step));
  if (range.log && !(range.low > 0.0))
    reject(where, fmt::format("{}: a range with log = true must lie above 0, but begins at {}", key, range.low));
  if (step && !(range.step > 0.0)) reject(where, fmt::format("{}: step must be above 0, but is {}", key, range.step));
  if (step && range.log) reject(where, fmt::format("{}: a range has either a step or log = true", key));
  return range;
}

Dimension read_dimension(const std::string& key, const toml::node& node, const std::string& where) {
  if (const auto* table = node.as_table()) return read_range(key, *table, where);
  const auto* array = node.as_array();
  if (!array || array->empty())
    reject(where,
           fmt::format("{} must be an array of the values to try, or a range such as {{ low = 1e-6, high = 1e-4, "
                       "log = true }}, but is {}",
                       key, array ? "empty" : describe(node)));
  Dimension choices{.key = key};
  for (const toml::node& value : *array) choices.choices.push_back(get_text(value));
  return choices;
}

std::vector<std::string> read_names(const toml::node& node, const std::string& key, const std::string& where) {
  std::vector<std::string> names;
  if (const auto* name = node.as_string()) {
    names.push_back(name->get());
  } else if (const auto* array = node.as_array()) {
    for (const toml::node& element : *array)
      if (const auto* text = element.as_string()) names.push_back(text->get());
    if (names.size() != array->size()) names.clear();
  }
  if (names.empty()) reject(where, fmt::format("search.{} must be a name or several, but is {}", key, describe(node)));
  return names;
}

/// Reads [search.space]. Nested tables are joined with dots: optim.lr = … and "optim.lr" = … are the same key.
void read_space(const fs::path& file, const std::string& prefix, const toml::table& table,
                const std::vector<std::string>& known, std::vector<Dimension>& space) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const std::string where = to_location(file, node);
    const auto* inner = node.as_table();
    const bool is_known = std::ranges::find(known, key) != known.end();
    const bool is_section = std::ranges::any_of(known, [&](const auto& other) { return other.starts_with(key + "."); });
    if (inner && !is_known && is_section) {
      read_space(file, key + ".", *inner, known, space);
      continue;
    }
    if (!is_known) {
      const auto nearest = nearest_name(key, known);
      reject(where,
             fmt::format("search.space: unknown key {}: {}", key,
                         nearest ? fmt::format("did you mean {}?", *nearest) : "modrun settings lists all keys"));
    }
    if (std::ranges::find(space, key, &Dimension::key) != space.end())
      reject(where, fmt::format("search.space has {} twice", key));
    if (key == "train.dir")
      reject(where, "search.space: train.dir cannot be searched, because each trial has its own folder: remove it");
    space.push_back(read_dimension(key, node, where));
  }
}

void check_backend(const SearchConfig& config, const fs::path& file) {
  const auto pruners = kPruners.find(config.backend);
  if (pruners == kPruners.end())
    reject(file.string(),
           fmt::format("search.backend is \"{}\": it must be random, grid, optuna or ray", config.backend));
  if (!config.pruner.empty() && pruners->second.empty())
    reject(file.string(),
           fmt::format("search.pruner is \"{}\", and search.backend {} has no pruners: set search.backend to optuna or "
                       "ray, or remove the pruner",
                       config.pruner, config.backend));
  if (!config.pruner.empty() && std::ranges::find(pruners->second, config.pruner) == pruners->second.end())
    reject(file.string(), fmt::format("search.pruner is \"{}\": it must be {} with search.backend = \"{}\"",
                                      config.pruner, fmt::join(pruners->second, " or "), config.backend));
  for (const auto& [key, value] : {std::pair("storage", config.storage), std::pair("study", config.study)})
    if (!value.empty() && config.backend != "optuna")
      reject(file.string(), fmt::format("search.{} is \"{}\", which only Optuna has, and search.backend is {}: set "
                                        "search.backend to optuna, or remove the key",
                                        key, value, config.backend));
  if (!config.study.empty() && config.storage.empty())
    reject(file.string(),
           fmt::format("search.study is \"{}\", a study shared by several machines: set search.storage to "
                       "its database",
                       config.study));
}

/// Checks that search.objective_command and the objective "command" are both present or both absent.
void check_command(const SearchConfig& config, const std::vector<std::string>& names, bool has_directions,
                   const fs::path& file) {
  const bool has_command = std::ranges::find(names, kCommandObjective) != names.end();
  if (has_command && config.objective_command.empty())
    reject(file.string(),
           "search.objective is command: set search.objective_command to the command that prints its value");
  if (!has_command && !config.objective_command.empty())
    reject(
        file.string(),
        fmt::format("search.objective_command is set, and search.objective is {}: add command to search.objective, or "
                    "remove search.objective_command",
                    fmt::join(names, ", ")));
  if (has_command && !has_directions)
    reject(file.string(),
           "search.objective is command, whose direction is unknown: set search.direction to minimize or "
           "maximize");
}

bool is_minimized(const std::string& name) {
  const auto own = std::ranges::find(own_objectives(), name, &OwnObjective::name);
  if (own != own_objectives().end()) return own->minimize;
  return less_is_better(name) || std::ranges::find(kMinimized, name) != kMinimized.end();
}

}  // namespace

SearchConfig read_search_config(const fs::path& file, const std::vector<std::string>& settings,
                                const std::vector<std::string>& known, ConfigSource source) {
  toml::table root = parse_toml_file(file, source == ConfigSource::user ? Links::followed : Links::none);
  auto* const search = root["search"].as_table();
  if (!search) reject(file.string(), "[search] is missing: add it, and list the config keys to try in [search.space]");
  std::map<std::string, std::string, std::less<>> set_here;  // keys set on the command line, and their location
  for (const std::string& setting : settings) {
    if (!setting.starts_with("search.")) continue;
    const std::string where = "--set " + setting;
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) reject(where, "expected key=value, e.g. --set search.trials=20");
    const std::string key = setting.substr(7, equals - 7);
    if (key == "space" || key.starts_with("space."))
      reject(where, "search.space cannot be set on the command line: set it in the config file");
    const toml::table value = parse_setting(setting.substr(equals + 1));
    search->insert_or_assign(key, *value.get("value"));
    set_here[key] = where;
  }

  if (source == ConfigSource::run_folder)
    for (const auto& [key, named, use] : kUntrustedKeys)
      if (const auto* node = search->get(key); node && !set_here.contains(key))
        reject(to_location(file, *node),
               fmt::format("search.{} names {}, and what the folder of a run names is not {}: "
                           "pass it with --set, or add --trust-folder",
                           key, named, use));

  SearchConfig config;
  std::vector<std::string> names, directions;
  std::string where_of_directions = file.string();
  for (auto& [name, node] : *search) {
    const std::string key(name.str());
    const auto set = set_here.find(key);
    const std::string where = set != set_here.end() ? set->second : to_location(file, node);
    std::string expected;
    int64_t seed = 0;
    std::string dir;
    if (key == "backend") {
      expected = assign(config.backend, node);
    } else if (key == "sampler") {
      expected = assign(config.sampler, node);
    } else if (key == "pruner") {
      expected = assign(config.pruner, node);
    } else if (key == "storage") {
      expected = assign(config.storage, node);
    } else if (key == "study") {
      expected = assign(config.study, node);
    } else if (key == "objective_command") {
      expected = assign(config.objective_command, node);
    } else if (key == "python") {
      expected = assign(config.python, node);
    } else if (key == "trials") {
      expected = assign(config.trials, node);
    } else if (key == "seed") {
      expected = assign(seed, node);
      config.seed = static_cast<uint64_t>(seed);
    } else if (key == "dir") {
      expected = assign(dir, node);
      if (expected.empty() && dir.empty()) reject(where, "search.dir is empty: name the folder of the study");
      config.dir = dir;
    } else if (key == "objective") {
      names = read_names(node, key, where);
    } else if (key == "direction") {
      directions = read_names(node, key, where);
      where_of_directions = where;
    } else if (key == "space") {
      if (!node.is_table()) reject(where, "search.space must be a table of config keys");
      read_space(file, "", *node.as_table(), known, config.space);
    } else {
      const auto nearest = nearest_name(key, {kKeys.begin(), kKeys.end()});
      reject(where, fmt::format("unknown key search.{}: {}", key,
                                nearest ? fmt::format("did you mean search.{}?", *nearest)
                                        : fmt::format("[search] has {}", fmt::join(kKeys, ", "))));
    }
    if (!expected.empty()) reject(where, fmt::format("search.{} must be {}, but is {}", key, expected, describe(node)));
  }
  if (config.space.empty()) reject(file.string(), "search.space is empty: list the config keys to try");
  check_backend(config, file);
  if (names.empty()) names = {config.objective_command.empty() ? "held_out_loss" : kCommandObjective};
  if (!config.pruner.empty() && names.size() > 1)
    reject(file.string(),
           fmt::format("search.pruner is \"{}\", and search.objective has {} entries: pruners support one "
                       "objective, as in Optuna",
                       config.pruner, names.size()));
  if (config.trials < 0)
    reject(file.string(), fmt::format("search.trials must be at least 0, but is {}", config.trials));
  if (!directions.empty() && directions.size() != names.size())
    reject(where_of_directions,
           fmt::format("search.direction has {} entries, and search.objective {}: give one direction per objective",
                       directions.size(), names.size()));
  check_command(config, names, !directions.empty(), file);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string direction = directions.empty() ? "" : directions[i];
    if (!direction.empty() && direction != "minimize" && direction != "maximize")
      reject(where_of_directions,
             fmt::format("search.direction has \"{}\": it must be minimize or maximize", direction));
    const bool by_default = is_minimized(names[i]);
    config.objectives.push_back({names[i], direction.empty() ? by_default : direction == "minimize"});
  }
  std::ranges::sort(config.space, {}, &Dimension::key);
  if (config.backend == "grid")
    for (const Dimension& dimension : config.space)
      if (dimension.count() == 0)
        reject(file.string(), fmt::format("search.space: a grid cannot count the values of {}: give it a step, or an "
                                          "array of values",
                                          dimension.key));
  if (config.backend == "grid") {
    const int64_t size = grid_size(config.space);
    config.trials = config.trials == 0 ? size : std::min(config.trials, size);
  }
  if (config.trials == 0) config.trials = kDefaultTrials;
  if (config.trials > most_trials(names.size()))
    reject(file.string(), fmt::format("search.trials is {}{}: a study with {} objective{} has at most {} trials",
                                      config.trials, config.backend == "grid" ? " on this grid" : "", names.size(),
                                      names.size() == 1 ? "" : "s", most_trials(names.size())));
  return config;
}

std::string to_identity(const SearchConfig& config) {
  nlohmann::ordered_json identity = {{"backend", config.backend}, {"seed", config.seed}};
  if (has_sampler(config)) identity["sampler"] = config.sampler;
  if (!config.pruner.empty()) identity["pruner"] = config.pruner;
  if (!config.study.empty()) identity["study"] = config.study;
  if (!config.objective_command.empty()) identity["objective_command"] = config.objective_command;
  for (const Objective& objective : config.objectives)
    identity["objectives"].push_back({{"name", objective.name}, {"minimize", objective.minimize}});
  for (const Dimension& dimension : config.space) {
    nlohmann::ordered_json entry = {{"key", dimension.key}};
    if (dimension.choices.empty())
      entry.update({{"low", dimension.low},
                    {"high", dimension.high},
                    {"step", dimension.step},
                    {"log", dimension.log},
                    {"whole", dimension.integral}});
    else
      entry["choices"] = dimension.choices;
    identity["space"].push_back(std::move(entry));
  }
  return identity.dump();
}

SearchConfig config_from_identity(const std::string& identity) {
  const auto json = nlohmann::json::parse(identity);
  SearchConfig config{.backend = json.at("backend"), .seed = json.at("seed")};
  if (has_sampler(config)) config.sampler = json.at("sampler");
  config.pruner = json.value("pruner", "");
  config.study = json.value("study", "");
  config.objective_command = json.value("objective_command", "");
  for (const auto& objective : json.at("objectives"))
    config.objectives.push_back({.name = objective.at("name"), .minimize = objective.at("minimize")});
  for (const auto& entry : json.at("space")) {
    Dimension& dimension = config.space.emplace_back(Dimension{.key = entry.at("key")});
    if (entry.contains("choices"))
      dimension.choices = entry.at("choices").get<std::vector<std::string>>();
    else
      dimension = {.key = dimension.key,
                   .low = entry.at("low"),
                   .high = entry.at("high"),
                   .step = entry.at("step"),
                   .log = entry.at("log"),
                   .integral = entry.at("whole")};
  }
  return config;
}

}  // namespace modular
