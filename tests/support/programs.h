// Programs that tests start, signal and wait for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace modular::testing {

/// A program that runs.
struct Started {
  pid_t pid = -1;
  std::filesystem::path output_file;  // standard output and error
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

struct Ended {
  int status = -1;  // as a shell has it; -1: it did not end in time
  std::string output;
  std::vector<std::string> lines;
  double seconds = 0.0;

  std::string last(size_t from_end) const {
    return lines.size() > from_end ? lines[lines.size() - 1 - from_end] : std::string();
  }
};

/// Starts `command` with these variables ("NAME=value") and without those of a launcher; its output goes to a new file
/// in `folder`.
Started start_program(const std::vector<std::string>& command, const std::filesystem::path& folder,
                      const std::vector<std::string>& variables = {});

/// Waits for the program's end, at most two minutes; then kills it, fails the test and says what it had written.
Ended end_of_program(const Started& run);

/// Waits until `holds()`, until the program has ended, or a minute.
void await(const Started& run, const std::function<bool()>& holds);

/// The same until the program's output holds `text`.
void await_output(const Started& run, const std::string& text);

/// The processes that this one has started and that live.
std::vector<pid_t> child_processes(pid_t process);

/// A port of the loopback address that was free a moment ago. Nodes must be told one port before any of them opens it.
uint16_t free_port();

}  // namespace modular::testing
