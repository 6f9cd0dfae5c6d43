#include "runtime/advise/compute_time.h"

namespace modular {

double attained_flops(double tokens, double width, const Cluster& cluster) {
  return cluster.flops * cluster.attained * tokens / (tokens + kHalfTokens) * width / (width + kHalfWidth);
}

ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster) {
  const auto tp = static_cast<double>(layout.tp);
  const double tokens = rows * static_cast<double>(model.tokens_of_row);
  const double products = rows * model.flops_of_row / tp / attained_flops(tokens, model.width / tp, cluster);
  const double pass = rows * model.values.on(layout.tp) / cluster.speed_of_memory();
  ComputeTime time;
  // A backward takes two products for each of the forward's.
  time.forward = products / 3.0 + kForwardPasses * pass;
  time.again = model.keepings[layout.keeping].again * time.forward;
  time.backward = 2.0 * products / 3.0 + kBackwardPasses * pass + time.again;
  return time;
}

double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster) {
  constexpr double kGradient = 3.0 * 4.0;    // read for the norm, read, and written as it was clipped
  constexpr double kParameters = 2.0 * 4.0;  // read and written
  const double bytes = kGradient + kParameters + 2.0 * model.optimizer_bytes + model.gathered_bytes;
  return elements * bytes / cluster.speed_of_memory();
}

}  // namespace modular
