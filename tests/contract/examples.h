// Statements of specs that use a name of the contract.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace contract {

struct Example {
  std::string file;  // "decoder.h"
  std::string code;  // whole lines, without their common indentation
};

/// The specs of a folder, by name.
class Examples {
 public:
  /// Throws std::runtime_error where `folder` holds none.
  explicit Examples(const std::string& folder);

  /// The shortest statement that says `name`, and calls it where it is to be `called`; nothing where none does.
  std::optional<Example> of(const std::string& name, bool called) const;

 private:
  struct Spec {
    std::string file;
    std::vector<std::string> lines;
  };
  std::vector<Spec> specs_;
};

}  // namespace contract
