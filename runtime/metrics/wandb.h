// Steps and evaluations of a run for Weights & Biases, through a Python process that runs wandb_helper.py.
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
#include "runtime/launch/python_helper.h"
#include "runtime/metrics/event_file.h"

namespace modular {

/// Throws ConfigError where metrics.wandb asks for what Python, or the account, has not: the package, or an API key
/// where W&B is not offline. Asked once a job, before its first rank runs.
void check_wandb(const RunConfig& config);

/// Where the id of the run at W&B is kept, so that a run that is resumed continues with it.
std::filesystem::path wandb_id_file(const RunConfig& config);

/// What wandb writes into the run's folder, unless WANDB_DIR names another one.
std::filesystem::path wandb_files(const RunConfig& config);

/// Hands lines to a thread that tells them to the helper, so that no step waits. Whatever the helper or W&B cannot do
/// is said once on the terminal and ends the telling, and never the run.
class Wandb {
 public:
  /// Begins the run at W&B, or continues with that of wandb_id_file(config), with all settings as its config. The
  /// thread that makes it has to live as long as it, as the helper ends with that.
  explicit Wandb(const RunConfig& config);
  /// As end(1), where end() was not called: the run has failed.
  ~Wandb();
  Wandb(const Wandb&) = delete;
  Wandb& operator=(const Wandb&) = delete;

  /// Numbers after `step`. Returns at once.
  void log(int64_t step, std::span<const Scalar> scalars);

  /// The run has ended with that exit status. Waits until W&B has all, a minute at most.
  void end(int status);

 private:
  void run_client(const nlohmann::json& begin, const std::filesystem::path& id_file);
  std::optional<nlohmann::json> take();

  std::optional<PythonHelper> helper_;
  std::mutex mutex_;
  std::condition_variable changed_;
  nlohmann::json lines_ = nlohmann::json::array();  // that wait, each an object of numbers
  std::optional<int> ended_with_;
  bool is_over_ = false;  // nothing is told any more
  std::thread thread_;
};

}  // namespace modular
