// File permissions in tests that may run as root, for whom they do not hold.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace modgen {

/// The beginning of a command for which permissions hold, for root too; nothing where that cannot be had.
inline std::optional<std::string> without_override() {
  if (geteuid() != 0) return "";
  const std::string prefix = "setpriv --bounding-set=-dac_override,-dac_read_search ";
  if (std::system((prefix + "true 2>/dev/null").c_str()) == 0) return prefix;
  return std::nullopt;
}

}  // namespace modgen
