#include "tests/support/programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "runtime/launch/process.h"

namespace modular::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::string get_text(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

Started start_program(const std::vector<std::string>& command, const std::filesystem::path& folder,
                      const std::vector<std::string>& variables) {
  static int count = 0;
  Started run;
  run.output_file = folder / fmt::format("output{}", count++);
  const int output = open(run.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  run.pid = start_process(command, child_environment(variables, {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS"}),
                          {.output = output, .error = output});
  close(output);
  return run;
}

Ended end_of_program(const Started& run) {
  const int descriptor = open_pidfd(run.pid);
  pollfd event = {descriptor, POLLIN, 0};
  Ended ended;
  const bool in_time = poll(&event, 1, 120000) == 1;
  close(descriptor);
  if (!in_time) kill(run.pid, SIGKILL);
  int status = 0;
  waitpid(run.pid, &status, 0);
  if (in_time) ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended.seconds = std::chrono::duration<double>(Clock::now() - run.started).count();
  ended.output = get_text(run.output_file);
  std::istringstream stream(ended.output);
  for (std::string line; std::getline(stream, line);) ended.lines.push_back(line);
  EXPECT_TRUE(in_time) << "hung; it wrote\n" << ended.output;
  return ended;
}

void await(const Started& run, const std::function<bool()>& holds) {
  const int descriptor = open_pidfd(run.pid);
  for (const auto deadline = Clock::now() + std::chrono::minutes(1); !holds() && Clock::now() < deadline;) {
    pollfd event = {descriptor, POLLIN, 0};
    if (poll(&event, 1, 20) == 1) break;
  }
  close(descriptor);
}

void await_output(const Started& run, const std::string& text) {
  await(run, [&] { return get_text(run.output_file).find(text) != std::string::npos; });
}

std::vector<pid_t> child_processes(pid_t process) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", process));
  std::vector<pid_t> found;
  for (pid_t child; children >> child;) found.push_back(child);
  return found;
}

uint16_t free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  close(listener);
  return ntohs(address.sin_port);
}

}  // namespace modular::testing
