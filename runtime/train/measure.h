// What steps of training take on a mesh, measured without leaving a run behind.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/train/preflight.h"

namespace modular {

/// Of the steps after the warm-up; of ranks the largest, where not said otherwise.
struct Measurement {
  std::vector<double> seconds;  // of each step, on rank 0
  double samples_per_step = 0.0;
  double memory_peak = 0.0;  // bytes
  double exchanges = 0.0;    // of a step
  double bytes = 0.0;        // that a rank receives in a step
  double loss = 0.0;         // of the last step, mean over the mesh
};

/// Trains `warm_up` and then `steps` steps as `run` says, from its first sample and from initial weights, whatever
/// model.checkpoint names. Writes nothing. Collective.
Measurement measure(const Run& run, Mesh& mesh, int64_t warm_up, int64_t steps);

}  // namespace modular
