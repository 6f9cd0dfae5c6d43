// Logs a run's steps and evaluations to Weights & Biases through a Python process that runs wandb_helper.py.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>

#include "runtime/config/config.h"
#include "runtime/launch/helper.h"
#include "runtime/metrics/event_file.h"

namespace modular {

/// Throws ConfigError if metrics.wandb is set and Python lacks the package, or the user an API key while W&B is not
/// offline. `folder` is the run's. Called once per job, before rank 0 starts.
void check_wandb(const MetricsSection& metrics, const std::filesystem::path& folder);

/// The file in a run's folder with its W&B id, with which a resumed run continues there.
std::filesystem::path wandb_id_file(const std::filesystem::path& folder);

/// The folder that wandb writes into, in the run's folder unless WANDB_DIR is set.
std::filesystem::path wandb_files(const std::filesystem::path& folder);

/// Passes lines to a thread that writes them to the helper, so that no step waits. Failures of the helper or of W&B are
/// printed once and stop the logging, never the run.
class Wandb {
 public:
  /// Starts the run at W&B, or continues that of wandb_id_file(), with all config values. The thread that
  /// constructs it must outlive it, as the helper ends with that thread.
  explicit Wandb(const RunConfig& config);
  /// Calls end(1) if end() was not called: the run failed.
  ~Wandb();
  Wandb(const Wandb&) = delete;
  Wandb& operator=(const Wandb&) = delete;

  /// Logs numbers after `step`. Returns immediately.
  void log(int64_t step, std::span<const Scalar> scalars);

  /// Ends the run with that exit status. Waits up to a minute until W&B has all data.
  void end(int status);

 private:
  void run_client(const nlohmann::json& begin, const std::filesystem::path& id_file);
  std::optional<nlohmann::json> take();

  std::optional<PythonHelper> helper_;
  std::mutex mutex_;
  std::condition_variable changed_;
  nlohmann::json lines_ = nlohmann::json::array();  // pending objects of numbers
  std::optional<int> ended_with_;
  bool is_over_ = false;  // nothing is sent any more
  std::thread thread_;
};

}  // namespace modular
