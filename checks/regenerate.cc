#include "checks/regenerate.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "checks/digest.h"
#include "checks/spec_errors.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

fs::path messages_file(const fs::path& folder, size_t group) { return folder / ("messages-" + std::to_string(group)); }

fs::path diagnostics_file(const fs::path& folder, size_t group) {
  return folder / ("diagnostics-" + std::to_string(group) + ".json");
}

pid_t start(const CheckOptions& options, const std::vector<std::string>& families, const fs::path& folder,
            const fs::path& messages, const fs::path& diagnostics) {
  fs::remove(diagnostics);  // an earlier run's
  std::vector<std::string> words = {options.modgen, "--root",        options.tree.root, "--output-dir",
                                    folder,         "--diagnostics", diagnostics};
  if (!options.tree.shipped.empty()) words.insert(words.end(), {"--shipped", options.tree.shipped});
  words.insert(words.end(), options.modgen_arguments.begin(), options.modgen_arguments.end());
  words.insert(words.end(), families.begin(), families.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  const int error = posix_spawn(&process, options.modgen.c_str(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error) throw std::runtime_error(options.modgen.string() + ": cannot be run: " + std::strerror(error));
  return process;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "modcheck-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be made: " + std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a folder left in /tmp is no reason to fail
  fs::remove_all(path_, ignored);
}

std::vector<Regeneration> regenerate(const CheckOptions& options, const std::vector<std::vector<std::string>>& groups,
                                     const fs::path& folder) {
  std::vector<Regeneration> results(groups.size());
  std::map<pid_t, size_t> running;
  auto finish_one = [&] {
    int status = 0;
    const pid_t process = wait(&status);
    if (process < 0) throw std::runtime_error(std::string("waiting for modgen failed: ") + std::strerror(errno));
    const size_t group = running.at(process);
    running.erase(process);
    results[group].exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    results[group].messages = read_file(messages_file(folder, group));
    results[group].diagnostics = read_diagnostics(diagnostics_file(folder, group));
  };
  const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
  for (size_t group = 0; group < groups.size(); ++group) {
    if (running.size() == at_once) finish_one();
    results[group].families = groups[group];
    running.emplace(
        start(options, groups[group], folder, messages_file(folder, group), diagnostics_file(folder, group)), group);
  }
  while (!running.empty()) finish_one();
  return results;
}

}  // namespace modgen
