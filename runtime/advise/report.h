// Formats advice for output.
#pragma once

#include <string>

#include "runtime/advise/advice.h"

namespace modular {

/// Formats the advice; `format` is "text", "markdown" or "json".
std::string format_report(const Advice& advice, const RunConfig& config, const Cluster& cluster,
                          const std::string& format);

}  // namespace modular
