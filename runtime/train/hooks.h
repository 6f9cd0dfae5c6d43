// What a program of one's own does as its runs continue.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/metrics/metrics.h"

namespace modular {

/// Called on every rank, at the same place of the run on all of them, so that a hook may exchange what it needs over
/// the mesh; those that are empty are not called. What a hook throws ends the run, as an error of its own would.
struct Hooks {
  /// After a step, with the same numbers on all ranks but for `seconds` and what follows from it.
  std::function<void(const StepMetrics&, Mesh&)> on_step;
  /// After held-out samples were evaluated.
  std::function<void(const Evaluation&, Mesh&)> on_evaluation;
  /// When the checkpoint of `step` is complete in `folder`: some steps later, where it was written in the background.
  /// With checkpoint.shared = false rank 0 alone has that folder.
  std::function<void(int64_t step, const std::filesystem::path& folder, Mesh&)> on_checkpoint;
};

/// The hooks of this program, in the order in which they were registered.
inline std::vector<Hooks>& hooks() {
  static std::vector<Hooks> registered;
  return registered;
}

/// Registers hooks for every run that this program trains. The value only gives a static initializer something to
/// initialize: `const bool registered = modular::register_hooks({.on_step = …});`
inline bool register_hooks(Hooks added) {
  hooks().push_back(std::move(added));
  return true;
}

}  // namespace modular
