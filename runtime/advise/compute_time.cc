#include "runtime/advise/compute_time.h"

namespace modular {

double attained_flops(double tokens, double width, const Cluster& cluster) {
  return cluster.flops * cluster.attained * tokens / (tokens + kHalfTokens) * width / (width + kHalfWidth);
}

ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster) {
  const auto tp = static_cast<double>(layout.tp);
  const double tokens = rows * static_cast<double>(model.tokens_of_row);
  const double matmuls = rows * model.flops_of_row / tp / attained_flops(tokens, model.width / tp, cluster);
  const double pass = rows * model.values.on(layout.tp) / cluster.speed_of_memory();
  ComputeTime time;
  // The backward has two GEMMs for each GEMM of the forward.
  time.forward = matmuls / 3.0 + kForwardPasses * pass;
  time.recomputed = model.keepings[layout.keeping].recomputed * time.forward;
  time.backward = 2.0 * matmuls / 3.0 + kBackwardPasses * pass + time.recomputed;
  return time;
}

double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster) {
  constexpr double kGradient = 3.0 * 4.0;    // read for the norm, then read and written for clipping
  constexpr double kParameters = 2.0 * 4.0;  // read and written
  const double bytes = kGradient + kParameters + 2.0 * model.optimizer_bytes + model.gathered_bytes;
  return elements * bytes / cluster.speed_of_memory();
}

}  // namespace modular
