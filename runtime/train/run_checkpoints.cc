#include "runtime/train/run_checkpoints.h"

#include <charconv>
#include <string>
#include <utility>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/config/config.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/train/trainer.h"

namespace modular {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* kSkipped = "skipped_steps";  // key of a checkpoint's state; 0 if missing

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

int64_t saved_number(const fs::path& checkpoint, const TrainingState& state, const std::string& name) {
  const auto found = state.values.find(name);
  const std::string text = found == state.values.end() ? "" : found->second;
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMost)
    throw std::runtime_error(fmt::format("{}: its state has the invalid number \"{}\" for {}",
                                         (checkpoint / "checkpoint.json").string(), text, name));
  return value;
}

}  // namespace

RunCheckpoints::RunCheckpoints(Run& run, Mesh& mesh, ParallelModel& model, Optimizer& optimizer, const FolderLock* lock)
    : run_(run),
      config_(run.config),
      mesh_(mesh),
      model_(model),
      optimizer_(optimizer),
      lock_(lock),
      slices_(get_slices(model)),
      saver_({.folder = config_.train.checkpoints(),
              .keep_last = config_.checkpoint.keep,
              .background = config_.checkpoint.background,
              .full = config_.checkpoint.form == "full",
              .shared = config_.checkpoint.shared},
             config_.network, mesh) {
  const auto moments = get_slices(optimizer.state());
  slices_.insert(slices_.end(), moments.begin(), moments.end());
}

DataPosition RunCheckpoints::restore(const fs::path& checkpoint, Progress& progress) {
  set_phase("loading " + checkpoint.string());
  const auto state = config_.checkpoint.shared ? load_checkpoint(checkpoint, config_.network, slices_, mesh_)
                                               : load_checkpoint_by_first(checkpoint, config_.network, slices_, mesh_);
  progress.step = state.step;
  newest_ = checkpoint;
  optimizer_.set_steps(saved_number(checkpoint, state, "optimizer_steps"));
  progress.skipped = state.values.contains(kSkipped) ? saved_number(checkpoint, state, kSkipped) : 0;
  BestEvaluation& best = progress.best;
  best.read(state.values);
  const bool is_gone = mesh_.rank() == 0 && !config_.checkpoint.best.empty() && best.step() &&
                       !fs::exists(checkpoint_of_step(config_.train.checkpoints(), *best.step()) / "checkpoint.json");
  if (any_rank(mesh_.control(), is_gone, "the best checkpoint")) {
    if (mesh_.rank() == 0)
      print_to(stdout,
               "the checkpoint of the best evaluation, after step {}, is missing: the next evaluation becomes the "
               "best\n",
               *best.step());
    best.read({});
  }
  model_.parameters_changed();
  DataPosition position = {saved_number(checkpoint, state, "samples")};
  if (run_.sets.size() > 1)
    for (const RunDataset& set : run_.sets)
      position.sets.push_back({saved_number(checkpoint, state, "samples of " + set.name),
                               saved_number(checkpoint, state, "steps of " + set.name)});
  return position;
}

bool RunCheckpoints::minutes_have_passed() const {
  const auto minutes = static_cast<double>(config_.checkpoint.every_minutes);
  return mesh_.rank() == 0 && minutes > 0 && config_.checkpoint.every >= 0 &&
         seconds_since(saved_at_) >= 60.0 * minutes;
}

void RunCheckpoints::save(const Progress& progress) {
  if (config_.checkpoint.every < 0) return;
  const auto begin = Clock::now();
  const bool waited = finish(progress.step) && seconds_since(begin) > 0.1;
  if (waited && !std::exchange(said_to_wait_, true) && mesh_.rank() == 0)
    print_to(stdout,
             "step {} waited {:.1f} s for the previous checkpoint: training continues while one is written, but only "
             "until the next is due; raise checkpoint.every to wait less\n",
             progress.step, seconds_since(begin));
  set_phase(fmt::format("saving step {}", progress.step));
  if (lock_) lock_->check_held();
  TrainingState state;
  state.step = progress.step;
  state.values["samples"] = std::to_string(progress.position.samples);
  for (size_t set = 0; set < progress.position.sets.size(); ++set) {
    state.values["samples of " + run_.sets[set].name] = std::to_string(progress.position.sets[set].samples);
    state.values["steps of " + run_.sets[set].name] = std::to_string(progress.position.sets[set].steps);
  }
  state.values["optimizer_steps"] = std::to_string(optimizer_.steps());
  if (progress.skipped > 0) state.values[kSkipped] = std::to_string(progress.skipped);
  state.values["config"] = format_toml(config_);
  progress.best.write(state.values);
  if (!config_.checkpoint.best.empty()) state.best_step = progress.best.step();
  saver_.begin(std::move(state), slices_);
  saved_at_ = Clock::now();
  if (!config_.checkpoint.background) finish(progress.step);
}

bool RunCheckpoints::finish(int64_t step) {
  set_phase(fmt::format("saving, after step {}", step));
  return report(saver_.finish());
}

/// Reports a complete checkpoint.
bool RunCheckpoints::report(const std::optional<SavedCheckpoint>& saved) {
  if (!saved) return false;
  if (mesh_.rank() == 0) print_to(stdout, "checkpoint {}\n", saved->folder.string());
  newest_ = saved->folder;
  for (const Hooks& hook : hooks())
    if (hook.on_checkpoint) hook.on_checkpoint(saved->step, saved->folder, mesh_);
  return true;
}

}  // namespace modular
