// Statements of specs that use a name of the contract.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace contract {

struct Example {
  std::string file;  // "decoder.h"
  std::string code;  // complete lines, without their common indentation
};

/// The specs of a folder, sorted by name.
class Examples {
 public:
  /// Throws std::runtime_error if `folder` contains no spec.
  explicit Examples(const std::string& folder);

  /// The shortest statement that uses `name`, or calls it if `called`; empty if there is none.
  std::optional<Example> find(const std::string& name, bool called) const;

 private:
  struct Spec {
    std::string file;
    std::vector<std::string> lines;
  };
  std::vector<Spec> specs_;
};

}  // namespace contract
