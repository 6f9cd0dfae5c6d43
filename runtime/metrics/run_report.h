// All that rank 0 tells of a run: into its files of metrics and onto the terminal.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/metrics/event_file.h"
#include "runtime/metrics/metrics.h"
#include "runtime/metrics/wandb.h"

namespace modular {

class RunReport {
 public:
  /// Continues the files of a run after `step` (0: begins them), as MetricsFile and EventFile say. `config` outlives
  /// it.
  RunReport(const RunConfig& config, int64_t step, bool has_text);

  /// How the run came to its first step.
  void start(int64_t ranks, const std::string& mesh, int64_t parameters, double start_to_first_step);
  void step(const StepMetrics& metrics);
  /// Step `failed` had no finite numbers: the run continues after `step`.
  void rollback(int64_t failed, int64_t step);
  void evaluation(const Evaluation& evaluation);
  bool has_evaluated(int64_t step) const { return std::ranges::count(evaluations_, step, &Evaluation::step) > 0; }
  /// Text that the model has written.
  void sample(const std::string& text);
  /// The summary, where steps were taken or the last part ended before it. `signal` is that which stopped the run, or
  /// 0.
  void end(int signal);

 private:
  /// Numbers after `step`, for whoever else looks on.
  void tell(int64_t step, std::span<const Scalar> scalars);

  using Clock = std::chrono::steady_clock;

  const RunConfig& config_;
  bool has_text_;
  MetricsFile file_;
  std::optional<EventFile> events_;
  std::optional<Wandb> wandb_;
  StepSums since_line_;
  RunSummary summary_;
  std::vector<Evaluation> evaluations_;  // of the whole run
  Clock::time_point began_ = Clock::now();
};

}  // namespace modular
