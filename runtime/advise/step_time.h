// Estimates of a layout, cheap enough for thousands: step time, split into compute, communication and waiting, and the
// peak memory of its fullest rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "runtime/advise/cluster.h"
#include "runtime/advise/communication.h"
#include "runtime/advise/layout.h"
#include "runtime/parallel/pipeline/pipeline_schedule.h"

namespace modular {

// Compute time of a device.

/// FLOP/s that a device attains on GEMMs of `tokens` rows and matrices of width `width`: `cluster.attained` of its peak
/// for large GEMMs, less for small ones (half at kHalfTokens rows or at kHalfWidth columns). A substitute for tables of
/// measured GEMMs.
double attained_flops(double tokens, double width, const Cluster& cluster);
inline constexpr double kHalfTokens = 64.0, kHalfWidth = 32.0;

/// Memory passes of elementwise operations (norms, activations) over the saved activations, whose size is about that of
/// their outputs: one read and one write in the forward; two passes and one for the gradient in the backward.
inline constexpr double kForwardPasses = 2.0, kBackwardPasses = 3.0;

/// Seconds of one micro-batch through all stages in sequence, each on `layout.cp` x `layout.tp` devices.
struct ComputeTime {
  double forward = 0.0, backward = 0.0;  // backward includes recomputation
  double recomputed = 0.0;               // part of backward
  double all() const { return forward + backward; }
};
ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster);

/// Seconds of a device's optimizer step on `elements` elements: reading and writing gradients, parameters and state,
/// including the gradient norm and clipping.
double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster);

// Simulates a layout's pipeline schedule: duration of a step and stored micro-batches.

/// Simulates schedules and caches the results, because most layouts share their pipeline with others.
class PipelineClock {
 public:
  /// Result in units of a stage's forward time. The backward takes `backward`, of which the input gradient (I) takes
  /// `input`.
  struct Step {
    double length = 0.0;
    double busy = 0.0;        // compute time per rank
    int64_t most_stored = 1;  // maximum over ranks of stored micro-batches per stage
  };
  Step simulate_step(const Layout& layout, double backward, double input);

 private:
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, int64_t>, Step> simulated_;
};

// Estimates the peak memory of a layout's fullest rank from a model profile, cheaply enough for thousands of layouts.
// Plans (runtime/plan/) then give exact numbers for the best layouts.

/// Memory in bytes, with the names of a plan's columns.
struct MemoryEstimate {
  double parameters = 0.0, gathered = 0.0, gradients = 0.0, unreduced = 0.0, optimizer = 0.0, activations = 0.0,
         working = 0.0;
  double peak = 0.0;  // on the device; the other fields are separate maxima
};

/// `rows` is the number of rows per micro-batch; at most `stored` micro-batches of a stage await their backward.
MemoryEstimate estimate_memory(const ModelProfile& model, const Layout& layout, double rows, int64_t stored);

// Step time of a layout, split into compute, communication and waiting.

/// Communication seconds per step along one axis: total, and exposed (not overlapped with compute).
struct AxisTime {
  double all = 0.0, exposed = 0.0;
};

struct StepTime {
  double compute = 0.0;                               // forwards and backwards of a rank
  double recomputed = 0.0;                            // part of compute
  double update = 0.0;                                // optimizer step
  double bubble = 0.0;                                // pipeline bubble
  AxisTime tp, cp, dp_shard, dp_replicate, pp, host;  // dp_shard: with the cp ranks that shard parameters
  double total = 0.0;
  int64_t stored = 1;  // micro-batches per stage that await their backward
  Received bytes;

  double hidden() const;
  /// Fraction of the step in which a device is idle.
  double idle_fraction() const { return total > 0.0 ? 1.0 - (compute + update) / total : 0.0; }
};

/// Estimates a step with micro-batches of `rows` rows.
StepTime step_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster,
                   PipelineClock& clock);

}  // namespace modular
