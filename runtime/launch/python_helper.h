// A JsonHelper that runs a Python program.
#pragma once

#include <string>
#include <vector>

#include "runtime/launch/json_helper.h"

namespace modular {

/// How a program of modrun is run in Python: it and the processes that it starts import nothing from the working
/// directory, which may be a folder that others wrote. Packages of PYTHONPATH and of the user's site are found.
struct PythonCommand {
  PythonCommand(const std::string& python, const char* program);

  std::vector<std::string> words, variables;
};

class PythonHelper : public JsonHelper {
 public:
  /// Runs `program` with `python`, which is found on PATH. Throws std::runtime_error where that cannot be started.
  PythonHelper(const std::string& python, const char* program) : PythonHelper(PythonCommand(python, program)) {}

 private:
  explicit PythonHelper(const PythonCommand& command) : JsonHelper(command.words, command.variables) {}
};

}  // namespace modular
