#include "runtime/launch/helper.h"

#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "runtime/launch/process.h"

namespace modular {
namespace {

constexpr int kMillisecondsToEnd = 5000;

int duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

}  // namespace

Helper::Helper(const std::vector<std::string>& command, const std::vector<std::string>& variables)
    : program_(command.front()) {
  int ends[2];  // this process's end and the helper's, used for both input and output
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("cannot create a socket: {}", std::strerror(errno)));
  const auto close_ends = c10::make_scope_exit([&] {
    for (const int end : ends) close(end);
  });
  process_ = start_process(command, child_environment(variables), {.input = ends[1], .output = ends[1]});
  to_ = fdopen(duplicate(ends[0]), "w");
  from_ = fdopen(duplicate(ends[0]), "r");
}

Helper::~Helper() {
  shutdown(fileno(to_), SHUT_WR);
  fclose(to_);
  const int ended = open_pidfd(process_);
  pollfd event = {ended, POLLIN, 0};
  if (poll(&event, 1, kMillisecondsToEnd) != 1) kill(process_, SIGKILL);
  close(ended);
  fclose(from_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

void Helper::stop() {
  if (process_ > 0) kill(process_, SIGKILL);
}

std::string Helper::ask(const std::string& line) {
  char* answer = nullptr;
  size_t capacity = 0;
  const bool is_sent = fputs(line.c_str(), to_) >= 0 && fputc('\n', to_) != EOF && fflush(to_) == 0;
  const ssize_t length = is_sent ? getline(&answer, &capacity, from_) : -1;
  std::string text(answer ? answer : "", length > 0 ? static_cast<size_t>(length) : 0);
  free(answer);
  if (!text.empty() && text.back() == '\n') return text.substr(0, text.size() - 1);
  throw std::runtime_error(fmt::format("{} ended without an answer", program_));
}

std::string Helper::receive(size_t bytes) {
  std::string text(bytes, '\0');
  if (fread(text.data(), 1, bytes, from_) == bytes) return text;
  throw std::runtime_error(fmt::format("{} ended in the middle of an answer", program_));
}

nlohmann::json JsonHelper::ask(const nlohmann::json& question) {
  const std::string line = helper_.ask(question.dump());
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) throw std::runtime_error("a helper's answer is not JSON: " + line.substr(0, 200));
  if (const auto error = answer.find("error"); error != answer.end())
    throw std::runtime_error(error->get<std::string>());
  return answer;
}

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
