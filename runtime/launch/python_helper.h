// A JsonHelper that runs a Python program.
#pragma once

#include <string>
#include <vector>

#include "runtime/launch/json_helper.h"

namespace modular {

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
