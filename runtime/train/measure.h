// Measures training steps on a mesh, without leaving files behind.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/train/preflight.h"

namespace modular {

/// Measurements of the steps after warm-up; the maximum over ranks unless stated otherwise.
struct Measurement {
  std::vector<double> seconds;  // per step, on rank 0
  double samples_per_step = 0.0;
  double memory_peak = 0.0;  // bytes
  double exchanges = 0.0;    // collectives per step
  double bytes = 0.0;        // bytes per step that a rank receives
  double loss = 0.0;         // mean over the mesh at the last step
};

/// Trains `warm_up` and then `steps` steps of `run`, from its first sample and from initial weights, regardless of
/// model.checkpoint. Writes nothing. Collective.
Measurement measure(Run& run, Mesh& mesh, int64_t warm_up, int64_t steps);

}  // namespace modular
