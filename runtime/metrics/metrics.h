// What a run reports: every step to metrics.jsonl, some of them to the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/evaluation/result.h"

namespace modular {

struct StepMetrics {
  int64_t step = 0;                                // counted from 1
  double loss = 0.0;                               // nats per token
  bool has_targets = true;                         // without them there is no loss
  double grad_norm = 0.0;                          // before clipping
  std::optional<double> router_loss, expert_load;  // as StepResult has them; of models with experts
  double lr = 0.0;
  std::string set = {};       // of data.sets, that the step drew from; empty where there is none
  double seconds = 0.0;       // of this step
  double data_wait = 0.0;     // seconds of it in which a rank waited for its samples, of the rank that waited longest
  int64_t tokens = 0;         // of this step, over all ranks
  int64_t step_samples = 0;   // of this step, over all ranks
  int64_t samples = 0;        // of the run so far, over all ranks
  int64_t memory_peak = 0;    // bytes, of the fullest rank
  std::optional<double> mfu;  // share of the devices' peak
};

/// What has become of a run when it ends, or of its part since it was continued.
struct RunSummary {
  int64_t step = 0;                      // the last one
  int64_t steps = 0;                     // taken by this part
  int64_t samples = 0, tokens = 0;       // of this part, over all ranks
  double seconds = 0.0;                  // since its first step began
  double seconds_of_steps = 0.0;         // of that without evaluations and checkpoints
  int64_t memory_peak = 0;               // bytes, of the fullest rank
  std::optional<Evaluation> last, best;  // of the whole run; none where nothing is held out
  std::string checkpoints;               // the folder; empty where none is written
  std::string stopped_by;                // the signal, e.g. "SIGTERM"; empty where all steps were taken

  double tokens_per_second() const { return steps > 0 ? static_cast<double>(tokens) / seconds_of_steps : 0.0; }
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
  /// {"event": "evaluation", …, "metrics": {"accuracy": 0.91}}
  void evaluation(const Evaluation& evaluation);
  /// {"event": "rollback", …}: step `failed` had no finite numbers, and the run continues after `step`, whose lines
  /// then come again.
  void rollback(int64_t failed, int64_t step);
  /// {"event": "sample", …}: bytes that are not UTF-8 are replaced.
  void sample(int64_t step, const std::string& text);
  /// {"event": "end", …}
  void end(const RunSummary& summary);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// Removes those that a run that continues after `step` has not made.
void forget_after(int64_t step, std::vector<Evaluation>& evaluations);

/// The evaluations of a run whose metrics.jsonl this is, in their order; none where there is no such file.
std::vector<Evaluation> read_evaluations(const std::filesystem::path& path);

/// Whether the file says that the run took all of its steps, of which `step` was the last.
bool has_ended(const std::filesystem::path& path, int64_t step);

/// `text` with what is not UTF-8 replaced by U+FFFD.
std::string as_utf8(const std::string& text);

/// Sums over the steps since the last line on the terminal.
struct StepSums {
  double seconds = 0.0, data_wait = 0.0;
  int64_t tokens = 0, samples = 0;

  void add(const StepMetrics& metrics);
};

/// The line of a step on the terminal, with rates over the steps of `since_line`, e.g. "step   10/300  loss 4.1235 grad
/// norm 1.234  lr 3.00e-04  5213 tokens/s  20.4 samples/s  data wait 0 %  0.41 GiB  eta 1:02". Where samples hold no
/// text, `has_text` is false and a token is an example.
std::string format_step(const StepMetrics& metrics, int64_t steps, const StepSums& since_line, bool has_text);

/// "held-out loss 1.2345 nats a row, accuracy 0.9100", or that there is none. `loss_unit` as loss_unit() says
/// (samples.h).
std::string format_evaluation(const Evaluation& evaluation, std::string_view loss_unit);

/// The lines on the terminal at the end of a run of `steps` steps. `loss_unit` as loss_unit() says (samples.h).
std::string format_summary(const RunSummary& summary, int64_t steps, std::string_view loss_unit, bool has_text);

/// Seconds since this process began, dynamic linking included.
double seconds_since_start();

}  // namespace modular
