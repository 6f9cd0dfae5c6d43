// A program that answers lines with lines, e.g. of JSON, over its standard streams.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace modular {

class Helper {
 public:
  /// Starts `command`, found on PATH, with `variables` ("NAME=value") in addition to those of this process; what it
  /// writes to its error stream is shown as it is. Throws std::runtime_error where it cannot be started.
  explicit Helper(const std::vector<std::string>& command, const std::vector<std::string>& variables = {});
  /// Ends it: by the end of its input, or else by a signal.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// The line that it answers with. Throws std::runtime_error that says how it ended where it does not answer.
  std::string ask(const std::string& line);

  /// The bytes that it writes after an answer. Throws std::runtime_error where it ends before.
  std::string receive(size_t bytes);

  /// Ends it by a signal, so that an ask() which waits on another thread throws.
  void stop();

 private:
  std::string program_;
  pid_t process_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace modular
