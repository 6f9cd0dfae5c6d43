// `modgen --watch`: generates what a change concerns, until it is interrupted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/records.h"

namespace modgen {

struct WatchOptions {
  Tree tree;
  std::filesystem::path output_folder;
  std::vector<std::string> families;   // all of the root's modular/, new ones too, when empty
  std::filesystem::path generate;      // this program, which generates in a process of its own
  std::vector<std::string> arguments;  // passed on to it, but for families
};

/// Returns 0 when SIGINT or SIGTERM ends it. Throws std::runtime_error where files cannot be watched.
int watch(const WatchOptions& options);

}  // namespace modgen
