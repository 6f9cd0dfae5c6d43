// A JsonHelper that runs a Python program.
#pragma once

#include <string>
#include <vector>

#include "runtime/launch/json_helper.h"

namespace modular {

/// The setting that leaves the choice of a Python to python_programs().
inline constexpr const char* kAnyPython = "python3";

/// The Pythons that helpers are tried with, in their order and each once: of the active environment ($VIRTUAL_ENV,
/// $CONDA_PREFIX), of the one that libtorch is in, and the first `python3` of PATH, whose relative entries do not
/// count.
std::vector<std::string> python_programs();

/// How a program of modrun is run in Python: it and the processes that it starts import nothing from the working
/// directory, which may be a folder that others wrote. Packages of PYTHONPATH and of the user's site are found. Where
/// `python` is kAnyPython, the first of python_programs() that can import `package` runs it. `program` may call
/// lacks(package, what pip is to install), a message for a package that cannot be imported.
struct PythonCommand {
  PythonCommand(const std::string& python, const std::string& package, const char* program);

  std::vector<std::string> words, variables;
};

class PythonHelper : public JsonHelper {
 public:
  /// As PythonCommand. Throws std::runtime_error where the program cannot be started.
  PythonHelper(const std::string& python, const std::string& package, const char* program)
      : PythonHelper(PythonCommand(python, package, program)) {}

 private:
  explicit PythonHelper(const PythonCommand& command) : JsonHelper(command.words, command.variables) {}
};

}  // namespace modular
