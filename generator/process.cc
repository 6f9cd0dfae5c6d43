#include "generator/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace modgen {
namespace {

std::runtime_error system_error(const std::string& what) { return std::runtime_error(what + ": " + strerror(errno)); }

pid_t start(std::vector<std::string>& words, const FileDescriptor& output, const FileDescriptor& errors) {
  keep_status_of_children();
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (output.is_open()) {
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors.is_open() ? errors : output, STDERR_FILENO);
  }
  pid_t process = 0;
  const int error = posix_spawnp(&process, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error) throw std::runtime_error(words[0] + " cannot be run: " + strerror(error));
  return process;
}

}  // namespace

std::string describe(const Ending& ending) {
  const std::string signal =
      "was ended by signal " + std::to_string(ending.signal) + " (" + strsignal(ending.signal) + ")";
  return ending.signal == SIGKILL ? signal + "; the machine may have run out of memory" : signal;
}

Process::Process(pid_t id) : id_(id) {
  // glibc 2.36 declares pidfd_open only for C.
  has_ended_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, id, 0)));
  if (has_ended_.is_open()) return;
  const std::runtime_error error = system_error("cannot watch a child process");
  kill(id, SIGKILL);
  waitpid(id, nullptr, 0);
  throw error;
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, 0)), has_ended_(std::move(other.has_ended_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(has_ended_, other.has_ended_);
  return *this;
}

Process::~Process() {
  if (id_ == 0) return;
  kill(id_, SIGKILL);
  while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Ending Process::wait() {
  int status = 0;
  while (waitpid(id_, &status, 0) < 0)
    if (errno != EINTR) throw system_error("waiting for a process failed");
  id_ = 0;
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

std::vector<size_t> ended(const std::vector<const Process*>& processes, bool wait) {
  std::vector<pollfd> files;
  for (const Process* process : processes) files.push_back({process->has_ended_, POLLIN, 0});
  while (poll(files.data(), files.size(), wait ? -1 : 0) < 0)
    if (errno != EINTR) throw system_error("waiting for processes failed");
  std::vector<size_t> result;
  for (size_t index = 0; index < files.size(); ++index)
    if (files[index].revents != 0) result.push_back(index);
  return result;
}

void keep_status_of_children() {
  struct sigaction action{};
  sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0) signal(SIGCHLD, SIG_DFL);
}

FileDescriptor memory_file(const char* name) {
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.is_open()) throw system_error("cannot create a file in memory");
  return file;
}

std::string contents(const FileDescriptor& file) {
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = pread(file, buffer, sizeof buffer, static_cast<off_t>(bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("cannot read the output of a process from memory");
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

Program::Program(std::vector<std::string> words, Streams streams)
    : output_(streams == Streams::inherited ? FileDescriptor() : memory_file("output")),
      errors_(streams == Streams::apart ? memory_file("errors") : FileDescriptor()),
      process_(start(words, output_, errors_)) {}

}  // namespace modgen
