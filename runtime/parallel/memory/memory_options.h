// Options that reduce the memory of a rank: recomputation and offloading to host memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// Operations or units that the backward recomputes instead of reading saved activations: entire units, or operations
/// inside all units.
struct Recomputation {
  int64_t every = 0;                    // elements 0, every, 2 * every, … of each list of units; 0 for none
  std::vector<std::string> operations;  // names from recomputed_operations()

  Recomputation(bool all_units = false) : every(all_units ? 1 : 0) {}
  explicit operator bool() const { return every > 0 || !operations.empty(); }
  /// Whether the forward of the unit at `path` in the module tree is recomputed. True for a unit that is in no list.
  bool includes_unit(const std::string& path) const;
};

/// Returns "attention", "norm" and "activation".
const std::vector<std::string>& recomputed_operations();

/// Data that is kept in host memory until the device needs it.
struct Offload {
  bool optimizer = false;          // the update and its operands: float32 parameters and optimizer state
  bool parameters = false;         // also parameters, except those of the units that are running
  bool activations = false;        // activations that units save for the backward
  size_t least_bytes = 64 * 1024;  // smaller activations stay on the device
};

/// Returns "optimizer", "parameters" and "activations".
const std::vector<std::string>& offload_names();

/// Converts these names to options.
Offload to_offload(const std::vector<std::string>& names);

/// Returns the invalid config key and an error message; both empty if the options are valid. `units` are class names.
std::pair<std::string, std::string> memory_error(const Entry& entry, const AnyConfig& config,
                                                 const std::vector<std::string>& units, const Recomputation& recompute,
                                                 const Offload& offload);

}  // namespace modular
