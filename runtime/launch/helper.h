// Child programs that answer each input line with an output line over their standard streams.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace modular {

/// Exchanges lines.
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

/// Exchanges JSON values, one per line.
class JsonHelper {
 public:
  /// As for Helper. Throws std::runtime_error if the program cannot be started.
  explicit JsonHelper(const std::vector<std::string>& command, const std::vector<std::string>& variables = {})
      : helper_(command, variables) {}

  /// Returns the answer. Throws std::runtime_error with the message of an answer {"error": message}, or if the program
  /// does not answer.
  nlohmann::json ask(const nlohmann::json& question);

  /// Reads the bytes that follow an answer. Throws std::runtime_error if the program ends first.
  std::string receive(size_t bytes) { return helper_.receive(bytes); }

  /// Kills the program, so that an ask() waiting on another thread throws.
  void stop() { helper_.stop(); }

 private:
  Helper helper_;
};

// Helpers in Python.

/// Config value that leaves the choice of a Python to python_programs().
inline constexpr const char* kAnyPython = "python3";

/// Returns the Pythons to try for helpers, in order and without duplicates: from the active environment ($VIRTUAL_ENV,
/// $CONDA_PREFIX), from the environment that contains libtorch, and the first `python3` on PATH. Relative entries of
/// PATH are ignored.
std::vector<std::string> python_programs();

/// Command that runs one of modrun's Python programs. The program and its child processes import nothing from the
/// working directory, because its contents may be untrusted. Packages on PYTHONPATH and in the user site are found. If
/// `python` is kAnyPython, the first of python_programs() that can import `package` runs it. `program` may call
/// lacks(package, name for pip install), which returns an error message for a package that cannot be imported.
struct PythonCommand {
  PythonCommand(const std::string& python, const std::string& package, const char* program);

  std::vector<std::string> words, variables;
};

class PythonHelper : public JsonHelper {
 public:
  /// As for PythonCommand. Throws std::runtime_error if the program cannot be started.
  PythonHelper(const std::string& python, const std::string& package, const char* program)
      : PythonHelper(PythonCommand(python, package, program)) {}

 private:
  explicit PythonHelper(const PythonCommand& command) : JsonHelper(command.words, command.variables) {}
};

}  // namespace modular
