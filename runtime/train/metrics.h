// What a run reports: every step to metrics.jsonl, some of them to the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace modular {

struct StepMetrics {
  int64_t step = 0;        // counted from 1
  double loss = 0.0;       // nats per token
  double grad_norm = 0.0;  // before clipping
  double lr = 0.0;
  double seconds = 0.0;       // of this step
  int64_t tokens = 0;         // of this step, over all ranks
  int64_t samples = 0;        // of the run so far, over all ranks
  int64_t memory_peak = 0;    // bytes, of this rank
  std::optional<double> mfu;  // share of the devices' peak
};

/// Writes one JSON object a line. Rank 0 has one; a reader may follow the file during the run.
class MetricsFile {
 public:
  /// Continues `path` after `step`: lines of later steps, which a crash left there, are removed. Step 0 starts again.
  /// The file is the old or the new one at any time.
  MetricsFile(const std::filesystem::path& path, int64_t step);

  /// {"event": "start", …}: how the run came to its first step.
  void start(int64_t first_step, int64_t ranks, const std::string& mesh, int64_t parameters,
             double start_to_first_step);
  void step(const StepMetrics& metrics);
  /// {"event": "evaluation", …}
  void evaluation(int64_t step, double held_out_loss, int64_t targets);
  /// {"event": "rollback", …}: step `failed` had no finite numbers, and the run goes on after `step`, whose lines then
  /// come again.
  void rollback(int64_t failed, int64_t step);
  /// {"event": "sample", …}: bytes that are not UTF-8 are replaced.
  void sample(int64_t step, const std::string& text);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// The line of a step on the terminal, e.g. "step   10/300  loss 4.1235  grad norm 1.234  lr 3.00e-04  5213 tokens/s
/// 0.41 GiB  eta 1:02". `unit` is what metrics.tokens counts: "tokens", or "examples" where samples hold no text.
std::string format_step(const StepMetrics& metrics, int64_t steps, double tokens_per_second, std::string_view unit);

/// Seconds since this process began, dynamic linking included.
double seconds_since_start();

}  // namespace modular
