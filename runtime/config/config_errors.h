// Errors for invalid config values, and the checks of values against each other (config_checks.cc).
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/config.h"

namespace modular {

/// The beginning of `text`, which may be as long as a file.
inline std::string shortened(const std::string& text, size_t longest) {
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

/// A problem after the location that set its key: "demo.toml:3:9: …".
inline std::string located(const std::string& where, const std::string& message) {
  return shortened(where, 500) + ": " + shortened(message, 2000);
}

/// Throws ConfigError with the location that set a key, and the problem.
[[noreturn]] inline void reject(const std::string& where, const std::string& message) {
  throw ConfigError(located(where, message));
}

/// A problem of the config key `key` of a run, after its location if the key was set.
inline std::string option_problem(const RunConfig& config, const std::string& key, const std::string& sentence) {
  const auto origin = config.origins.find(key);
  return origin == config.origins.end() ? sentence : origin->second + ": " + sentence;
}

/// Problems of one config, in the order found. Keeps the first ones only: a hostile file may hold any number.
class Problems {
 public:
  bool empty() const { return messages_.empty(); }

  void add(std::string problem) {
    if (!is_full()) messages_.push_back(std::move(problem));
  }

  /// Adds a problem of the key that was set at `where`.
  void add(const std::string& where, const std::string& message) { add(located(where, message)); }

  /// Adds a problem, unless `sentence` is empty.
  void add_if(const std::string& sentence) {
    if (!sentence.empty()) add(sentence);
  }

  /// Adds a problem of the config key `key`, unless `sentence` is empty.
  void add_if(const RunConfig& config, const std::string& key, const std::string& sentence) {
    if (!sentence.empty()) add(option_problem(config, key, sentence));
  }

  /// Runs `check`, and adds the ConfigError that it throws. What a check computes may be undefined for values that an
  /// earlier one rejected: an error of another kind then adds nothing.
  template <class F>
  void collect(F&& check) {
    try {
      check();
    } catch (const ConfigError& error) {
      add(error.what());
    } catch (const std::exception&) {
      if (empty()) throw;
    }
  }

  /// Whether further problems would not be reported.
  bool is_full() const { return messages_.size() > kReported; }

  /// Throws ConfigError with one line per problem; does nothing if there are none.
  void throw_if_any() const {
    if (empty()) return;
    std::string all;
    for (size_t i = 0; i < messages_.size() && i < kReported; ++i) all += (i == 0 ? "" : "\n") + messages_[i];
    throw ConfigError(is_full() ? all + "\nand more: fix these first" : all);
  }

 private:
  static constexpr size_t kReported = 10;

  std::vector<std::string> messages_;
};

/// Throws ConfigError with such a problem.
[[noreturn]] inline void throw_option_error(const RunConfig& config, const std::string& key,
                                            const std::string& sentence) {
  throw ConfigError(option_problem(config, key, sentence));
}

/// Throws ConfigError with `sentence`, unless it is empty.
inline void reject_if(const std::string& sentence) {
  if (!sentence.empty()) throw ConfigError(sentence);
}

/// Adds every invalid value, and every contradiction between values, to `problems`. Changes nothing.
void validate(const RunConfig& config, Problems& problems);

/// Throws ConfigError if the command line sets a key that the chosen optimizer does not read. Files may hold keys of
/// several optimizers: a run's config.toml holds all of them.
void check_optimizer_options(RunConfig& config);

}  // namespace modular
