// How long a device computes.
#pragma once

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// Operations a second that a device reaches on products of `tokens` rows with matrices `width` wide: the share of its
/// peak that large ones reach, less the more a product is mere edge (half of it at kHalfTokens rows or at kHalfWidth
/// columns). A stand-in for tables of measured products.
double attained_flops(double tokens, double width, const Cluster& cluster);
inline constexpr double kHalfTokens = 64.0, kHalfWidth = 32.0;

/// How often norms, activations and the like read or write what a forward leaves for its backward, which is about what
/// they make: in the forward once each, in the backward twice and once for the gradient.
inline constexpr double kForwardPasses = 2.0, kBackwardPasses = 3.0;

/// Seconds of one micro-batch over the whole model, were its stages one after another on devices of `layout.tp` each.
struct ComputeTime {
  double forward = 0.0, backward = 0.0;  // the latter with what is computed again
  double again = 0.0;                    // of the latter
  double all() const { return forward + backward; }
};
ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster);

/// Seconds of a device's optimizer step on so many elements: reading gradients, parameters and state, and writing them,
/// with the norm of the gradient and clipping.
double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster);

}  // namespace modular
