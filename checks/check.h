// Whether generated/ is what modular/ says. The fast path compares digests; what they do not confirm is generated again
// and compared.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checks/records.h"
#include "generator/source/diagnostic.h"

namespace modgen {

struct CheckOptions {
  Tree tree;
  std::filesystem::path modgen;               // the program that generates
  std::vector<std::string> modgen_arguments;  // passed on to it
  std::vector<std::string> families;          // those to check; all, and the folder's other files, when empty
  std::optional<std::string> changed_since;   // a git revision: only families that a change since then concerns
  bool full = false;                          // trust no record
  bool fix = false;                           // write what should be there
};

enum class Verdict {
  drift,      // the tree is not what the specs say
  fixed,      // it was not, and is now
  unchecked,  // it could not be checked
  rejected,   // a spec does not generate: an error in it, or in its parallel plan
};

struct Difference {
  Verdict verdict;
  std::string file;  // relative to the root
  int line;          // the first that differs, or 1
  std::string message;
  std::string diff;  // unified, from what is there to what should be; may be empty
  std::optional<Diagnostic> error =
      {};  // what modgen said, with columns, notes and fixes, where the verdict is rejected
};

struct CheckResult {
  std::vector<Difference> differences;  // in the order of the files' names
  std::vector<std::string> notices;     // what a person should know of the run itself: sentences
};

/// Everything in generated/ that differs from what modular/ says. Throws std::runtime_error where the tree cannot be
/// read at all, or not be written where it is to be fixed; nothing is changed then.
CheckResult check(const CheckOptions& options);

}  // namespace modgen
