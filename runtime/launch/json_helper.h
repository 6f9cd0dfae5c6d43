// A Helper that exchanges JSON values, one per line.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/helper.h"

namespace modular {

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

}  // namespace modular
