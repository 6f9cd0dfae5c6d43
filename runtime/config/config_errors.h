// Errors for invalid config values.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace modular {

/// The beginning of `text`, which may be as long as a file.
inline std::string shortened(const std::string& text, size_t longest) {
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

/// Throws ConfigError with the location that set a key ("demo.toml:3:9") and the problem.
[[noreturn]] inline void reject(const std::string& where, const std::string& sentence) {
  throw ConfigError(shortened(where, 500) + ": " + shortened(sentence, 2000));
}

/// The same for the config key `key` of a run.
[[noreturn]] inline void throw_option_error(const RunConfig& config, const std::string& key,
                                            const std::string& sentence) {
  const auto origin = config.origins.find(key);
  throw ConfigError(origin == config.origins.end() ? sentence : origin->second + ": " + sentence);
}

/// Throws ConfigError with `sentence`, unless it is empty.
inline void reject_if(const std::string& sentence) {
  if (!sentence.empty()) throw ConfigError(sentence);
}

}  // namespace modular
