// Reports a run from rank 0: metrics files and terminal output.
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
  /// Continues the files of a run after `step` (0: starts them), as MetricsFile and EventFile do. `config` must outlive
  /// the report.
  RunReport(const RunConfig& config, int64_t step, bool has_text);

  /// Reports the start of the run, before its first step.
  void start(int64_t ranks, const std::string& mesh, int64_t parameters, double start_to_first_step);
  void step(const StepMetrics& metrics);
  /// Step `failed` was not finite: the run continues after `step`.
  void rollback(int64_t failed, int64_t step);
  void evaluation(const Evaluation& evaluation);
  bool has_evaluated(int64_t step) const { return std::ranges::count(evaluations_, step, &Evaluation::step) > 0; }
  /// Text that the model generated.
  void sample(const std::string& text);
  /// Prints the summary if steps were taken, or if the previous part ended without one. `signal` is the signal that
  /// stopped the run, or 0.
  void end(int signal);

 private:
  /// Logs numbers after `step` to TensorBoard and W&B.
  void log(int64_t step, std::span<const Scalar> scalars);

  using Clock = std::chrono::steady_clock;

  const RunConfig& config_;
  bool has_text_;
  MetricsFile file_;
  std::optional<EventFile> events_;
  std::optional<Wandb> wandb_;
  StepSums since_line_;
  RunSummary summary_;
  std::vector<Evaluation> evaluations_;  // of the entire run
  Clock::time_point began_ = Clock::now();
};

}  // namespace modular
