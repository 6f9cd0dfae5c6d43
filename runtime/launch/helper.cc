#include "runtime/launch/helper.h"

#include <c10/util/ScopeExit.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
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

}  // namespace modular
