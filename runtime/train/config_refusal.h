// How a setting that cannot be is refused.
#pragma once

#include <string>

#include "runtime/model/config.h"

namespace modular {

/// The beginning of a text that may be a file's.
inline std::string shortened(const std::string& text, size_t longest) {
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

/// Throws ConfigError: `where` a setting was set ("demo.toml:3:9"), and what is wrong with it.
[[noreturn]] inline void refuse(const std::string& where, const std::string& sentence) {
  throw ConfigError(shortened(where, 500) + ": " + shortened(sentence, 2000));
}

}  // namespace modular
