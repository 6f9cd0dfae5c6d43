// Advice as a reader takes it.
#pragma once

#include <string>

#include "runtime/advise/advice.h"

namespace modular {

/// Tables of a terminal, of markdown, or JSON: `format` is "text", "markdown" or "json".
std::string format_report(const Advice& advice, const RunConfig& config, const Cluster& cluster,
                          const std::string& format);

}  // namespace modular
