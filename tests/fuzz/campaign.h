// Inputs for one reader, read in a process that may crash or hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tests/fuzz/readers.h"

namespace modular::fuzz {

struct Campaign {
  uint64_t first = 0, count = 0;  // range of input numbers; an input depends only on the seed and its number
  uint64_t seed = 1;
  std::chrono::seconds longest{60};  // time limit of one input
  std::filesystem::path found;       // folder that keeps inputs that break the rule
};

/// One way in which inputs broke the rule.
struct Found {
  std::string what;              // "it is a c10::Error: …", or the last words of a process that ended
  uint64_t input = 0, more = 0;  // number of the first such input, and how many more there were
};

struct Result {
  uint64_t accepted = 0, rejected = 0, kinds_of_errors = 0;
  std::map<std::string, Found> found;
  std::chrono::duration<double> time{};
  double slowest = 0.0;  // seconds of the slowest input
};

Result run_campaign(const Reader& reader, const Campaign& campaign);

}  // namespace modular::fuzz
