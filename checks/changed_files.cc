#include "checks/changed_files.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "checks/digest.h"
#include "checks/regenerate.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

/// What `git -C root arguments…` prints.
std::string git(const fs::path& root, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"git", "-C", root};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const TemporaryFolder folder;
  const fs::path output = folder.path() / "output", errors = folder.path() / "errors";
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t process = 0;
  const int error = posix_spawnp(&process, "git", &files, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error) throw std::runtime_error(std::string("git cannot be run: ") + std::strerror(error));
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error(std::string("waiting for git failed: ") + std::strerror(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("git: " + read_file(errors));
  return read_file(output);
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
  // Resolved first, so that no revision is taken for a flag or a file.
  std::string commit = git(root, {"rev-parse", "--verify", "--end-of-options", revision + "^{commit}"});
  commit.erase(commit.find_last_not_of('\n') + 1);
  std::set<std::string> names;
  add_names(git(root, {"diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", commit, "--"}),
            names);
  add_names(git(root, {"ls-files", "--others", "--exclude-standard", "-z"}), names);
  return names;
}

}  // namespace modgen
