#include "runtime/launch/python_helper.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram =
#include "runtime/launch/first_python.inc"
    ;

/// Returns the absolute entries of a list of paths. Python and execvp resolve other entries, including empty ones,
/// against the working directory.
std::vector<std::string> absolute_entries(const char* path) {
  std::istringstream entries(path ? path : "");
  std::vector<std::string> kept;
  for (std::string entry; std::getline(entries, entry, ':');)
    if (entry.starts_with('/')) kept.push_back(entry);
  return kept;
}

/// Returns the environment that pip installed libtorch in: ENV of ENV/lib/python3.X/site-packages/torch/lib/libc10.so.
/// Empty if libtorch is elsewhere.
fs::path environment_of_libtorch() {
  fs::path library;
  const auto visit = [](dl_phdr_info* loaded, size_t, void* found) {
    const fs::path path = loaded->dlpi_name;
    if (path.filename() != "libc10.so") return 0;
    *static_cast<fs::path*>(found) = fs::absolute(path).lexically_normal();
    return 1;
  };
  dl_iterate_phdr(visit, &library);
  const fs::path torch = library.parent_path().parent_path(), packages = torch.parent_path();
  const bool is_installed = torch.filename() == "torch" && packages.filename().string().ends_with("-packages");
  return is_installed ? packages.parent_path().parent_path().parent_path() : fs::path();
}

}  // namespace

std::vector<std::string> python_programs() {
  std::vector<std::string> programs;
  const auto add = [&](const fs::path& program) {
    if (!program.is_absolute() || std::ranges::find(programs, program.string()) != programs.end()) return false;
    const bool is_found = access(program.c_str(), X_OK) == 0 && !fs::is_directory(program);
    if (is_found) programs.push_back(program);
    return is_found;
  };
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* const environment = std::getenv(variable)) add(fs::path(environment) / "bin" / kAnyPython);
  add(environment_of_libtorch() / "bin" / kAnyPython);
  for (const std::string& folder : absolute_entries(std::getenv("PATH")))
    if (add(fs::path(folder) / kAnyPython)) break;
  return programs;
}

PythonCommand::PythonCommand(const std::string& python, const std::string& package, const char* program)
    : variables{"PYTHONSAFEPATH=1"} {
  std::vector<std::string> programs = {python};
  if (python == kAnyPython)
    if (const std::vector<std::string> found = python_programs(); !found.empty()) programs = found;
  const nlohmann::json request = {{"package", package}, {"pythons", programs}, {"tried", nlohmann::json::array()}};
  words = {programs.front(), "-c", std::string(kProgram) + program, request.dump()};
  if (const char* const path = std::getenv("PYTHONPATH")) {
    std::string kept;
    for (const std::string& entry : absolute_entries(path)) kept += (kept.empty() ? "" : ":") + entry;
    variables.push_back("PYTHONPATH=" + kept);
  }
}

}  // namespace modular
