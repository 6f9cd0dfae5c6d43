// Definitions that a family's program adds to its generated file. modcheck writes its source.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/execute/contract_in_double.h"

namespace modular::execute {

/// The strings that the family's generated file compares values with.
extern const std::vector<std::string> compared_strings;

/// An entry whose class in the spec means as C++ what modgen makes of it.
struct WrittenEntry {
  std::string_view architecture, task;
  /// Runs the spec's class, built from a finished config, with the parameters of `generated`, the entry's generated
  /// module. Returns nullopt if some parameter of `generated` has no counterpart.
  std::function<std::optional<Outputs>(const AnyConfig& config, nn::Module& generated, const Batch& batch)> forward;
};

/// The entries of the family's spec that can be compared with the generated ones.
extern const std::vector<WrittenEntry> written_entries;

}  // namespace modular::execute
