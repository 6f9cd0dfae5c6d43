// Metrics of a run: every step goes to metrics.jsonl, some steps to the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/evaluation/evaluation.h"

namespace modular {

struct StepMetrics {
  int64_t step = 0;                                // counted from 1
  double loss = 0.0;                               // nats per token
  bool has_targets = true;                         // false: no target, hence no loss
  double grad_norm = 0.0;                          // before clipping
  std::optional<double> router_loss, expert_load;  // as in StepResult; only models with experts
  double lr = 0.0;
  std::string set = {};       // key in data.sets that the step sampled from; empty without sets
  double seconds = 0.0;       // of this step
  double data_wait = 0.0;     // seconds of this step spent waiting for samples, on the rank that waited longest
  int64_t tokens = 0;         // of this step, over all ranks
  int64_t step_samples = 0;   // of this step, over all ranks
  int64_t samples = 0;        // of the run so far, over all ranks
  int64_t memory_peak = 0;    // bytes, maximum over ranks
  std::optional<double> mfu;  // fraction of the devices' peak
};

/// Summary of a run, or of the part since it was resumed.
struct RunSummary {
  int64_t step = 0;                      // last step
  int64_t steps = 0;                     // taken in this part
  int64_t samples = 0, tokens = 0;       // in this part, over all ranks
  double seconds = 0.0;                  // since its first step began
  double seconds_of_steps = 0.0;         // without evaluations and checkpoints
  int64_t memory_peak = 0;               // bytes, maximum over ranks
  std::optional<Evaluation> last, best;  // of the entire run; nullopt without validation data
  std::string checkpoints;               // folder; empty if no checkpoints are written
  std::string stopped_by;                // signal, e.g. "SIGTERM"; empty if all steps were taken

  double tokens_per_second() const { return steps > 0 ? static_cast<double>(tokens) / seconds_of_steps : 0.0; }
};

/// Writes one JSON object per line. Owned by rank 0; readers may follow the file during the run.
class MetricsFile {
 public:
  /// Continues `path` after `step`: removes lines of later steps, which a crash left behind. Step 0 starts over.
  /// Readers see either the old or the new file at any time.
  MetricsFile(const std::filesystem::path& path, int64_t step);

  /// {"event": "start", …}, with the time to the first step.
  void start(int64_t first_step, int64_t ranks, const std::string& mesh, int64_t parameters,
             double start_to_first_step);
  void step(const StepMetrics& metrics);
  /// {"event": "evaluation", …, "metrics": {"accuracy": 0.91}}
  void evaluation(const Evaluation& evaluation);
  /// {"event": "rollback", …}: step `failed` was not finite, and the run continues after `step`. Lines of the steps in
  /// between are written again.
  void rollback(int64_t failed, int64_t step);
  /// {"event": "sample", …}, with invalid UTF-8 replaced.
  void sample(int64_t step, const std::string& text);
  /// {"event": "end", …}
  void end(const RunSummary& summary);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// Removes evaluations after `step`.
void forget_after(int64_t step, std::vector<Evaluation>& evaluations);

/// The evaluations in a run's metrics.jsonl, in order; empty if the file does not exist.
std::vector<Evaluation> read_evaluations(const std::filesystem::path& path);

/// Whether the file says that the run completed all steps, with `step` as the last one.
bool has_ended(const std::filesystem::path& path, int64_t step);

/// `text` with invalid UTF-8 replaced by U+FFFD.
std::string as_utf8(const std::string& text);

/// Sums over the steps since the last terminal line.
struct StepSums {
  double seconds = 0.0, data_wait = 0.0;
  int64_t tokens = 0, samples = 0;

  void add(const StepMetrics& metrics);
};

/// A step's line on the terminal, with rates over the steps in `since_line`, e.g. "step   10/300  loss 4.1235 grad norm
/// 1.234  lr 3.00e-04  5213 tokens/s  20.4 samples/s  data wait 0 %  0.41 GiB  eta 1:02". `has_text` is false for
/// samples without text, where a token is an example.
std::string format_step(const StepMetrics& metrics, int64_t steps, const StepSums& since_line, bool has_text);

/// "validation loss 1.2345 nats/token, accuracy 0.9100", or a note that there is no loss. `loss_unit` is that of
/// loss_unit() (samples.h).
std::string format_evaluation(const Evaluation& evaluation, std::string_view loss_unit);

/// The terminal lines at the end of a run of `steps` steps. `loss_unit` is that of loss_unit() (samples.h).
std::string format_summary(const RunSummary& summary, int64_t steps, std::string_view loss_unit, bool has_text);

/// Seconds since this process started, including dynamic linking.
double seconds_since_start();

}  // namespace modular
