// Execution of generated files: each is compiled once and run on simulated ranks, and compared with one process. It
// knows a plan's rows and nothing of the proof that made them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/records.h"

namespace modgen {

struct ExecuteOptions {
  Tree tree;
  std::vector<std::string> families;
  std::filesystem::path flags;  // how to compile: the file execute.flags of a build or an installed package
  bool trusts_records = true;   // whether families that passed before, with the same text, contract and libraries, pass
};

/// The file execute.flags of this program's build or package.
std::filesystem::path execute_flags();

/// Compiles and runs the families' generated files, as many at once as the machine has cores, and prints what their
/// programs print, in the order of the families. Returns whether all compute the same on every mesh. Throws
/// std::runtime_error if `flags` or what it names does not exist.
bool execute(const ExecuteOptions& options);

}  // namespace modgen
