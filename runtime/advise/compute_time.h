// Compute time of a device.
#pragma once

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// FLOP/s that a device attains on GEMMs of `tokens` rows and matrices of width `width`: `cluster.attained` of its peak
/// for large GEMMs, less for small ones (half at kHalfTokens rows or at kHalfWidth columns). A substitute for tables of
/// measured GEMMs.
double attained_flops(double tokens, double width, const Cluster& cluster);
inline constexpr double kHalfTokens = 64.0, kHalfWidth = 32.0;

/// Memory passes of elementwise operations (norms, activations) over the saved activations, whose size is about that of
/// their outputs: one read and one write in the forward; two passes and one for the gradient in the backward.
inline constexpr double kForwardPasses = 2.0, kBackwardPasses = 3.0;

/// Seconds of one micro-batch through all stages in sequence, each on `layout.tp` devices.
struct ComputeTime {
  double forward = 0.0, backward = 0.0;  // backward includes recomputation
  double recomputed = 0.0;               // part of backward
  double all() const { return forward + backward; }
};
ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster);

/// Seconds of a device's optimizer step on `elements` elements: reading and writing gradients, parameters and state,
/// including the gradient norm and clipping.
double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster);

}  // namespace modular
