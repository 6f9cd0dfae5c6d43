// `modgen --watch`: regenerates the families that a change affects, until interrupted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/records.h"

namespace modgen {

struct WatchOptions {
  Tree tree;
  std::filesystem::path output_folder;
  std::vector<std::string> families;   // if empty, all families of the root's modular/, including new ones
  std::filesystem::path generate;      // this program, which runs in a separate process to generate
  std::vector<std::string> arguments;  // arguments to pass to it, without families
};

/// Returns 0 on SIGINT or SIGTERM. Throws std::runtime_error if files cannot be watched.
int watch(const WatchOptions& options);

}  // namespace modgen
