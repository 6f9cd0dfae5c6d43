// Generates families into a folder of its own, by running modgen.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/check.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// A folder that is removed with its contents at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Regeneration {
  std::vector<std::string> families;
  int exit_code = 0;                    // modgen's
  std::string messages;                 // what it printed
  std::vector<Diagnostic> diagnostics;  // what it reported about specs
};

/// Runs modgen for each group of families, as many at a time as there are processors; a family's files land in
/// `folder`.
std::vector<Regeneration> regenerate(const CheckOptions& options, const std::vector<std::vector<std::string>>& groups,
                                     const std::filesystem::path& folder);

}  // namespace modgen
