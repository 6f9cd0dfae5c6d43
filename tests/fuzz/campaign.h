// Inputs for one reader, each read in a process that may end or hang.
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
  uint64_t first = 0, count = 0;  // numbers of inputs; what an input is follows from the seed and its number
  uint64_t seed = 1;
  std::chrono::seconds longest{60};  // that an input may take
  std::filesystem::path found;       // the folder where inputs that break the rule are kept
};

/// What broke the rule in one way.
struct Found {
  std::string what;              // "it is a c10::Error: …", or the last words of a process that ended
  uint64_t input = 0, more = 0;  // the first of them, and how many more there were
};

struct Result {
  uint64_t accepted = 0, rejected = 0, kinds_of_errors = 0;
  std::map<std::string, Found> found;
  std::chrono::duration<double> time{};
  double slowest = 0.0;  // seconds of one input
};

Result run_campaign(const Reader& reader, const Campaign& campaign);

}  // namespace modular::fuzz
