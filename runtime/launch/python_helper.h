// A JsonHelper that runs a Python program.
#pragma once

#include <string>

#include "runtime/launch/json_helper.h"

namespace modular {

class PythonHelper : public JsonHelper {
 public:
  /// Runs `program` with `python`, which is found on PATH. Throws std::runtime_error where that cannot be started.
  PythonHelper(const std::string& python, const char* program) : JsonHelper({python, "-c", program}) {}
};

}  // namespace modular
