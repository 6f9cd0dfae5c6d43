#include "runtime/launch/helper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
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

}  // namespace

Helper::Helper(const std::vector<std::string>& command) : program_(command.front()) {
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(input[0]), close(input[1]);
    throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
  }
  to_ = fdopen(input[1], "w");
  from_ = fdopen(output[0], "r");
  try {
    process_ = start_process(command, child_environment({}), {.input = input[0], .output = output[1]});
  } catch (...) {
    close(input[0]), close(output[1]);
    fclose(to_), fclose(from_);
    throw;
  }
  close(input[0]), close(output[1]);
}

Helper::~Helper() {
  fclose(to_);
  const int ended = end_of(process_);
  pollfd event = {ended, POLLIN, 0};
  if (poll(&event, 1, kMillisecondsToEnd) != 1) kill(process_, SIGKILL);
  close(ended);
  fclose(from_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

std::string Helper::ask(const std::string& line) {
  char* answer = nullptr;
  size_t capacity = 0;
  const bool asked = fputs(line.c_str(), to_) >= 0 && fputc('\n', to_) != EOF && fflush(to_) == 0;
  const ssize_t length = asked ? getline(&answer, &capacity, from_) : -1;
  std::string text(answer ? answer : "", length > 0 ? static_cast<size_t>(length) : 0);
  free(answer);
  if (!text.empty() && text.back() == '\n') return text.substr(0, text.size() - 1);
  throw std::runtime_error(fmt::format("{} ended without an answer", program_));
}

}  // namespace modular
