#include "checks/regenerate.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "checks/spec_errors.h"
#include "generator/process.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

fs::path diagnostics_file(const fs::path& folder, size_t group) {
  return folder / ("diagnostics-" + std::to_string(group) + ".json");
}

Program start(const CheckOptions& options, const std::vector<std::string>& families, const fs::path& folder,
              const fs::path& diagnostics) {
  fs::remove(diagnostics);  // left from an earlier run
  std::vector<std::string> words = {options.modgen, "--root",        options.tree.root, "--output-dir",
                                    folder,         "--diagnostics", diagnostics};
  if (!options.tree.shipped.empty()) words.insert(words.end(), {"--shipped", options.tree.shipped});
  words.insert(words.end(), options.modgen_arguments.begin(), options.modgen_arguments.end());
  words.insert(words.end(), families.begin(), families.end());
  return Program(std::move(words), Program::Streams::together);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "modcheck-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be created: " + std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // leaving a folder in /tmp is not an error
  fs::remove_all(path_, ignored);
}

std::vector<Regeneration> regenerate(const CheckOptions& options, const std::vector<std::vector<std::string>>& groups,
                                     const fs::path& folder) {
  std::vector<Regeneration> results(groups.size());
  struct Running {
    size_t group;
    Program program;
  };
  std::vector<Running> running;
  auto finish_some = [&] {
    std::vector<const Process*> processes;
    for (const Running& entry : running) processes.push_back(&entry.program.process());
    const std::vector<size_t> done = ended(processes, /*wait=*/true);
    for (size_t index = done.size(); index-- > 0;) {
      Running finished = std::move(running[done[index]]);
      running.erase(running.begin() + static_cast<long>(done[index]));
      Regeneration& result = results[finished.group];
      const Ending ending = finished.program.wait();
      result.exit_code = ending.exit_code;
      result.messages = finished.program.output();
      if (ending.signal != 0) result.messages += "modgen " + describe(ending) + "\n";
      result.diagnostics = read_diagnostics(diagnostics_file(folder, finished.group));
    }
  };
  const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
  for (size_t group = 0; group < groups.size(); ++group) {
    if (running.size() == at_once) finish_some();
    results[group].families = groups[group];
    running.push_back({group, start(options, groups[group], folder, diagnostics_file(folder, group))});
  }
  while (!running.empty()) finish_some();
  return results;
}

}  // namespace modgen
