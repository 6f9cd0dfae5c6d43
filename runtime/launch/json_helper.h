// A Helper that speaks JSON, a value a line.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/helper.h"

namespace modular {

class JsonHelper {
 public:
  /// As Helper does. Throws std::runtime_error where that cannot be started.
  explicit JsonHelper(const std::vector<std::string>& command, const std::vector<std::string>& variables = {})
      : helper_(command, variables) {}

  /// What it answers. Throws std::runtime_error with the sentence of an answer {"error": sentence}, or which says that
  /// it did not answer.
  nlohmann::json ask(const nlohmann::json& question);

  /// The bytes that follow an answer. Throws std::runtime_error where it ends before.
  std::string receive(size_t bytes) { return helper_.receive(bytes); }

  /// Ends it by a signal, so that an ask() which waits on another thread throws.
  void stop() { helper_.stop(); }

 private:
  Helper helper_;
};

}  // namespace modular
