// What a rank does so as to need less memory: what it computes twice, and what it keeps in the host's memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// What is computed again in the backward instead of being kept: units, or operations inside of all units.
struct Recomputation {
  int64_t every = 0;                    // of each list of units the elements 0, every, 2 * every, …; 0 for none
  std::vector<std::string> operations;  // of recomputed_operations()

  Recomputation(bool all_units = false) : every(all_units ? 1 : 0) {}
  explicit operator bool() const { return every > 0 || !operations.empty(); }
  /// Whether the forward of the unit at `path` in the module tree is run again. A unit that is in no list is.
  bool of_unit(const std::string& path) const;
};

/// "attention", "norm" and "activation".
const std::vector<std::string>& recomputed_operations();

/// What is in host memory and comes to the device when it is needed.
struct Offload {
  bool optimizer = false;          // the update, and what it reads and writes: float32 parameters, its state
  bool parameters = false;         // parameters too, outside of the units at work
  bool activations = false;        // what units keep for the backward
  size_t least_bytes = 64 * 1024;  // of activations: smaller ones stay
};

/// "optimizer", "parameters" and "activations".
const std::vector<std::string>& offload_names();

/// What those names say.
Offload to_offload(const std::vector<std::string>& names);

/// A setting that cannot be, and why; both empty where there is none. `units` are class names.
std::pair<std::string, std::string> memory_error(const Entry& entry, const AnyConfig& config,
                                                 const std::vector<std::string>& units, const Recomputation& recompute,
                                                 const Offload& offload);

}  // namespace modular
