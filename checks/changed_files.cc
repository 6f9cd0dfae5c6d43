#include "checks/changed_files.h"

#include <stdexcept>
#include <vector>

#include "generator/process.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

/// Returns the output of `git -C root arguments…`.
std::string git(const fs::path& root, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"git", "-C", root};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Program program(std::move(words), Program::Streams::apart);
  const Ending ending = program.wait();
  if (ending.signal != 0) throw std::runtime_error("git " + describe(ending));
  if (ending.exit_code != 0) throw std::runtime_error("git: " + program.errors());
  return program.output();
}

void add_names(const std::string& separated_by_null, std::set<std::string>& names) {
  for (size_t begin = 0; begin < separated_by_null.size();) {
    const size_t end = std::min(separated_by_null.find('\0', begin), separated_by_null.size());
    names.insert(separated_by_null.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::set<std::string> changed_since(const fs::path& root, const std::string& revision) {
  // Resolve the revision first, so that it is not taken for a flag or a file.
  std::string commit = git(root, {"rev-parse", "--verify", "--end-of-options", revision + "^{commit}"});
  commit.erase(commit.find_last_not_of('\n') + 1);
  std::set<std::string> names;
  add_names(git(root, {"diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", commit, "--"}),
            names);
  add_names(git(root, {"ls-files", "--others", "--exclude-standard", "-z"}), names);
  return names;
}

}  // namespace modgen
