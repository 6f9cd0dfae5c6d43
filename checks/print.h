// Output of modcheck as text and in machine-readable formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"

namespace modgen {

/// `format` is "text", "json", "github" (workflow annotations) or "sarif" (2.1.0). Diffs are printed in text and JSON
/// only, if `with_diff`. File names are relative to `root`.
std::string print(const std::vector<Difference>& differences, std::string_view format, bool with_diff,
                  const std::filesystem::path& root);

}  // namespace modgen
