// The output of modcheck, for people and for other programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"

namespace modgen {

/// `format` is "text", "json", "github" (workflow annotations) or "sarif" (2.1.0). Diffs are in text and JSON only,
/// where `with_diff`. `root` is the tree that file names are relative to.
std::string print(const std::vector<Difference>& differences, std::string_view format, bool with_diff,
                  const std::filesystem::path& root);

}  // namespace modgen
