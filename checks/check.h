// Checks that generated/ is up to date with modular/. The fast path compares digests; families that they do not confirm
// are regenerated and compared.
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
  std::vector<std::string> modgen_arguments;  // additional arguments for modgen
  std::vector<std::string> families;          // families to check; if empty, all, and other files of the folder
  std::optional<std::string> changed_since;   // a git revision: check only families that changes since then affect
  bool full = false;                          // ignore records and regenerate everything
  bool fix = false;                           // write the correct files
};

enum class Verdict {
  drift,      // the file differs from its spec
  fixed,      // the file differed and has been fixed
  unchecked,  // the file could not be checked
  rejected,   // the spec cannot be generated: it or its parallel plan has an error
};

struct Difference {
  Verdict verdict;
  std::string file;  // relative to the root
  int line;          // first differing line, or 1
  std::string message;
  std::string diff;                      // unified diff from the actual to the expected content; may be empty
  std::optional<Diagnostic> error = {};  // if rejected: modgen's diagnostic, with columns, notes and fixes
};

struct CheckResult {
  std::vector<Difference> differences;  // sorted by file name
  std::vector<std::string> notices;     // messages about the run itself
  std::vector<std::string> families;    // the families that were checked
};

/// Returns all differences between generated/ and the output that modular/ generates. Throws std::runtime_error if the
/// tree cannot be read, or cannot be written with `fix`; nothing is changed in that case.
CheckResult check(const CheckOptions& options);

}  // namespace modgen
