// A child program that answers each input line with an output line, e.g. of JSON, over its standard streams.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace modular {

class Helper {
 public:
  /// Starts `command`, found on PATH, with `variables` ("NAME=value") added to this process's environment. Its standard
  /// error is passed through. Throws std::runtime_error if the program cannot be started.
  explicit Helper(const std::vector<std::string>& command, const std::vector<std::string>& variables = {});
  /// Closes the program's input, and kills it if it does not exit.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Sends `line` and returns the answering line. Throws std::runtime_error if the program does not answer.
  std::string ask(const std::string& line);

  /// Reads the bytes that follow an answer. Throws std::runtime_error if the program ends first.
  std::string receive(size_t bytes);

  /// Kills the program, so that an ask() waiting on another thread throws.
  void stop();

 private:
  std::string program_;
  pid_t process_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace modular
