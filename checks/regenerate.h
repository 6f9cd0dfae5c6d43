// Runs modgen to generate families into a separate folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/check.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// A temporary folder that is removed with its contents at the end of the scope.
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
  int exit_code = 0;                    // exit code of modgen
  std::string messages;                 // output of modgen
  std::vector<Diagnostic> diagnostics;  // errors and warnings about specs
};

/// Runs modgen for each group of families, with one process per CPU at a time. The generated files are written to
/// `folder`.
std::vector<Regeneration> regenerate(const CheckOptions& options, const std::vector<std::vector<std::string>>& groups,
                                     const std::filesystem::path& folder);

}  // namespace modgen
