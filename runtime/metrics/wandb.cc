#include "runtime/metrics/wandb.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/config/config_field.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"
#include "runtime/metrics/metrics.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostIdBytes = 1 << 16;
constexpr auto kLongestEnd = std::chrono::minutes(1);

constexpr const char* kProgram =
#include "runtime/metrics/wandb_helper.inc"
    ;

/// The request that starts a run at W&B.
nlohmann::json beginning(const RunConfig& config) {
  RunConfig get_fields = config;
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& fields : {section_fields(get_fields), model_fields(*get_fields.network.config)})
    for (const ConfigField& field : fields)
      if (const std::string value = toml_value(field.value); !value.empty()) settings[field.path] = as_utf8(value);
  const fs::path folder = config.train.dir, id = wandb_id_file(folder);
  check_no_links({folder, wandb_files(folder).filename()});  // the helper writes into it
  return {{"project", config.metrics.wandb},
          {"folder", as_utf8(folder.string())},
          {"name", as_utf8((folder / "").parent_path().filename().string())},
          {"id", is_there(id) ? as_utf8(read_file(id, kMostIdBytes)) : ""},
          {"settings", std::move(settings)}};
}

}  // namespace

void check_wandb(const MetricsSection& metrics, const fs::path& folder) {
  if (metrics.wandb.empty()) return;
  // wandb would read the server's address from it, and send the user's key there.
  for (const fs::path& settings : {wandb_files(folder) / "settings", folder / ".wandb"}) {
    if (!is_there(settings)) continue;
    throw ConfigError(
        fmt::format("{} exists, which configures Weights & Biases: remove it, and use environment variables instead "
                    "(e.g. WANDB_BASE_URL)",
                    settings.string()));
  }
  try {
    PythonHelper(metrics.python, "wandb", kProgram).ask(nlohmann::json::object());
  } catch (const std::runtime_error& error) {
    throw ConfigError(fmt::format("metrics.wandb needs Weights & Biases in the Python of metrics.python ({}): {}",
                                  metrics.python, error.what()));
  }
}

fs::path wandb_id_file(const fs::path& folder) { return folder / "wandb.id"; }

fs::path wandb_files(const fs::path& folder) { return folder / "wandb"; }

Wandb::Wandb(const RunConfig& config) {
  try {
    helper_.emplace(config.metrics.python, "wandb", kProgram);
  } catch (const std::runtime_error& error) {
    print_to(stderr, "Weights & Biases is not used, and the run continues: {}\n", error.what());
    is_over_ = true;
    return;
  }
  thread_ = std::thread(
      [this, begin = beginning(config), id_file = wandb_id_file(config.train.dir)] { run_client(begin, id_file); });
}

Wandb::~Wandb() { end(1); }

void Wandb::log(int64_t step, std::span<const Scalar> scalars) {
  nlohmann::json line = {{"step", step}};
  for (const auto& [tag, value] : scalars) line[tag] = value;
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

void Wandb::end(int status) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  ended_with_ = status;
  changed_.notify_all();
  const bool in_time = changed_.wait_for(lock, kLongestEnd, [&] { return is_over_; });
  lock.unlock();
  if (!in_time) helper_->stop();  // so that the thread waiting for it finishes
  thread_.join();
}

/// Pending lines, as soon as there are some; none at the end.
std::optional<nlohmann::json> Wandb::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !lines_.empty() || ended_with_; });
  if (lines_.empty()) return std::nullopt;
  return std::exchange(lines_, nlohmann::json::array());
}

void Wandb::run_client(const nlohmann::json& begin, const fs::path& id_file) {
  try {
    helper_->ask(nlohmann::json::object());
    const nlohmann::json begun = helper_->ask(begin);
    write_file(id_file, begun.at("id").get<std::string>());
    print_to(stdout, "Weights & Biases run: {}\n", begun.at("where").get<std::string>());
    while (const auto lines = take()) helper_->ask({{"log", *lines}});
    helper_->ask({{"end", *ended_with_}});
  } catch (const std::exception& error) {
    print_to(stderr, "logging to Weights & Biases ends, and the run continues: {}\n", error.what());
  }
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  lines_.clear();
  changed_.notify_all();
}

}  // namespace modular
