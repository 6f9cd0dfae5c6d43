// How a setting that cannot be is rejected.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace modular {

/// The beginning of a text that may be a file's.
inline std::string shortened(const std::string& text, size_t longest) {
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

/// Throws ConfigError: `where` a setting was set ("demo.toml:3:9"), and what is wrong with it.
[[noreturn]] inline void reject(const std::string& where, const std::string& sentence) {
  throw ConfigError(shortened(where, 500) + ": " + shortened(sentence, 2000));
}

/// The same of a run's setting `key`.
[[noreturn]] inline void throw_option_error(const RunConfig& config, const std::string& key,
                                            const std::string& sentence) {
  const auto origin = config.origins.find(key);
  throw ConfigError(origin == config.origins.end() ? sentence : origin->second + ": " + sentence);
}

/// Throws ConfigError with a sentence that is not empty.
inline void reject_if(const std::string& sentence) {
  if (!sentence.empty()) throw ConfigError(sentence);
}

}  // namespace modular
