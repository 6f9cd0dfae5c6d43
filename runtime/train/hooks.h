// Callbacks of a user's own program during training.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/metrics/metrics.h"

namespace modular {

/// Called on every rank at the same point of the run, so that a hook may communicate over the mesh. Empty hooks are
/// skipped. An exception from a hook ends the run as its own errors do.
struct Hooks {
  /// After a step. All ranks get the same numbers, except for `seconds` and values derived from it.
  std::function<void(const StepMetrics&, Mesh&)> on_step;
  /// After an evaluation on validation samples.
  std::function<void(const Evaluation&, Mesh&)> on_evaluation;
  /// When the checkpoint of `step` is complete in `folder`, some steps later if it was written in the background. With
  /// checkpoint.shared = false only rank 0 has that folder.
  std::function<void(int64_t step, const std::filesystem::path& folder, Mesh&)> on_checkpoint;
};

/// The hooks of this program, in the order of registration.
inline std::vector<Hooks>& hooks() {
  static std::vector<Hooks> registered;
  return registered;
}

/// Registers hooks for every run that this program trains. The return value only serves as a static initializer: `const
/// bool registered = modular::register_hooks({.on_step = …});`
inline bool register_hooks(Hooks added) {
  hooks().push_back(std::move(added));
  return true;
}

}  // namespace modular
