#include "runtime/train/trainer.h"

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/run_tokenizer.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/partitions.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/metrics/run_report.h"
#include "runtime/metrics/step_trace.h"
#include "runtime/optim/optimizer.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/prefetcher.h"
#include "runtime/train/run_checkpoints.h"
#include "runtime/train/sampling.h"
#include "runtime/train/save_signals.h"
#include "runtime/train/validation.h"

namespace modular {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Initializes parameters if no checkpoint has all of them.
ParallelOptions to_options(const Run& run) {
  ParallelOptions options = run.config.parallel_options();
  const std::string& weights = run.config.model.checkpoint;
  options.initialize = run.checkpoint.empty() && (weights.empty() || find_checkpoint(weights).empty());
  return options;
}

class Trainer {
 public:
  /// `lock` is null on ranks that do not hold the folder.
  Trainer(Run& run, Mesh& mesh, SaveSignals& signals, const FolderLock* lock)
      : run_(run),
        config_(run.config),
        mesh_(mesh),
        signals_(signals),
        lock_(lock),
        model_(*config_.network.entry, *config_.network.config, mesh, to_options(run),
               static_cast<uint64_t>(config_.train.seed)),
        optimizer_(model_.parameters(), config_.optim, mesh),
        shape_(config_.batch_shape(run.mesh, mesh.coordinate(kRowAxes))),
        source_(mix(run.sets, shape_, config_.train.seed, config_.data.group_by_length)),
        checkpoints_(run, mesh, model_, optimizer_, lock),
        trace_(config_.train.traces() / trace_file(mesh.rank()), config_.metrics.trace, mesh.device()),
        progress_{.best = BestEvaluation(config_.checkpoint.best.empty() ? "loss" : config_.checkpoint.best)} {}

  /// Returns the signal that ended the run before its last step, or 0.
  int run() {
    load();
    count_steps();
    const auto counts = count_parameters(config_.network, config_.parallel_options());
    barrier(mesh_.control(), "what ranks load");
    if (config_.checkpoint.every >= 0) checkpoints_.reserve();
    if (mesh_.rank() == 0) open_folder();  // all ranks have read the files that it may replace
    peak_ = config_.metrics.peak_tflops > 0.0 ? std::optional(config_.metrics.peak_tflops * 1e12)
                                              : device_peak(mesh_.device(), config_.parallel.bf16);
    for (const RunDataset& set : run_.sets)
      flops_per_row_.push_back(flops_per_row(config_.network, counts.multiplied, set.training->tokens()));
    announce(counts);

    const int64_t& steps = config_.train.steps;  // with train.epochs, a rollback changes it
    // The previous part may have ended between a step and its evaluation, which rank 0 knows.
    const bool lacks_evaluation =
        progress_.step > 0 && due(config_.eval.every, progress_.step == steps) &&
        any_rank(mesh_.control(), report_ && !report_->has_evaluated(progress_.step), "an evaluation");
    const bool is_best_now = lacks_evaluation && evaluate() && !config_.checkpoint.best.empty();
    if (is_best_now || (lacks_evaluation && has_run_out_of_patience()))
      checkpoints_.save(progress_);  // again, with the result of that evaluation
    while (progress_.step < steps && !has_run_out_of_patience()) {
      trace_.begin(progress_.step + 1);
      std::optional<StepMetrics> metrics = take_step();
      const bool last = progress_.step == steps;
      std::array<int64_t, 3> largest = {metrics ? nanoseconds(metrics->data_wait) : 0, memory_peak(mesh_.device()),
                                        static_cast<int64_t>(checkpoints_.progress())};
      const SaveRequest request = signals_.agree(mesh_, checkpoints_.minutes_have_passed(), largest);
      trace_.end(progress_.step);
      // On CPU the peak is measured, not looked up. All ranks measure together, after the first step, because they
      // share the cores.
      if (!peak_ && flops_per_row_[0] && mesh_.device().is_cpu() && !last) peak_ = matrix_rate(config_.parallel.bf16);
      if (metrics) {
        metrics->data_wait = static_cast<double>(largest[0]) * 1e-9;
        metrics->memory_peak = largest[1];
        report(*metrics);
      }
      checkpoints_.go_on(static_cast<SaveProgress>(largest[2]));
      if (request.end_by != 0 && !last) return end_early(request.end_by);
      if (!metrics) continue;  // rolled back: nothing is due again
      if (request.save && config_.checkpoint.every < 0)
        print("a checkpoint was asked for, but checkpoint.every is -1: none is written\n");
      const bool is_best = due(config_.eval.every, last) && evaluate() && !config_.checkpoint.best.empty();
      const bool ends = last || has_run_out_of_patience();
      if (request.save || is_best || due(config_.checkpoint.every, ends)) checkpoints_.save(progress_);
    }
    checkpoints_.finish(progress_.step);
    write_sample();
    end_report(/*signal=*/0);
    report_skipped_steps();
    return 0;
  }

 private:
  /// Whether an action with period `every` steps (0: at the end only, -1: never) is due after this step.
  bool due(int64_t every, bool last) const {
    return every >= 0 && (last || (every > 0 && progress_.step % every == 0));
  }

  int end_early(int signal) {
    checkpoints_.save(progress_);
    checkpoints_.finish(progress_.step);
    end_report(signal);
    return signal;
  }

  /// A run that skipped more than half of its steps has failed, although its checkpoints exist. Counts all steps of the
  /// run, including those before it was resumed.
  void report_skipped_steps() const {
    if (progress_.skipped == 0) return;
    const std::string counts = fmt::format("{} of {} steps were skipped, as their loss or gradient was not finite",
                                           progress_.skipped, progress_.step);
    if (2 * progress_.skipped <= progress_.step) return print("{} (train.on_nonfinite)\n", counts);
    throw std::runtime_error(
        fmt::format("{}: more than half, so the run has failed; lower optim.lr, lengthen optim.warmup_steps, or set "
                    "optim.max_grad_norm",
                    counts));
  }

  void end_report(int signal) {
    if (lock_) lock_->check_held();
    if (report_) report_->end(signal);
  }

  void load() {
    if (!run_.checkpoint.empty()) {
      progress_.position = checkpoints_.restore(run_.checkpoint, progress_);
    } else if (!config_.model.checkpoint.empty()) {
      set_phase("loading " + config_.model.checkpoint);
      const fs::path folder = config_.model.checkpoint;
      if (config_.first_reads())
        load_parameters_by_first(folder, config_.network, get_slices(model_), Head::may_be_new, mesh_);
      else
        load_parameters(folder, config_.network, get_slices(model_), Head::may_be_new);
      model_.parameters_changed();
    }
  }

  /// Sets train.steps so that it ends after train.epochs passes, after the batch size changed or a rollback.
  void count_steps() {
    if (config_.train.epochs == 0.0) return;
    const int64_t left = config_.train.samples_of_epochs(source_.samples()) - progress_.position.samples;
    config_.train.steps = progress_.step + std::max<int64_t>((left + shape_.global() - 1) / shape_.global(), 0);
  }

  void open_folder() {
    const fs::path folder = config_.train.dir;
    if (run_.request.overwrite) {
      for (const fs::path& old : {config_.train.checkpoints(), config_.train.event_files(), config_.train.traces(),
                                  wandb_id_file(folder), wandb_files(folder)})
        fs::remove_all(old);
    } else if (run_.checkpoint.empty() && !find_checkpoint(config_.train.checkpoints()).empty()) {
      throw std::runtime_error(fmt::format(
          "another run has saved a checkpoint in {} in the meantime: --resume=auto continues it", folder.string()));
    } else if (!run_.request.checkpoint.empty()) {
      // From now on this is the newest checkpoint of the run, from which restarted ranks continue.
      list_newest(config_.train.checkpoints(), run_.checkpoint, /*keep_last=*/0);
    }
    mark_job(folder);
    keep_tokenizer(config_, /*resumed=*/!run_.checkpoint.empty());
    write_file(folder / "config.toml", format_toml(config_));
    write_file(folder / "data.manifest", format_manifest(get_files(run_.sets)));
    report_.emplace(config_, progress_.step, run_.sets.front().training->tokens() > 1);
  }

  void announce(const ParameterCounts& counts) {
    const double start = seconds_since_start();
    if (report_) report_->start(mesh_.world_size(), mesh_.shape().describe(), counts.all, start);
    const auto millions = [](int64_t count) { return static_cast<double>(count) * 1e-6; };
    const std::string trained =
        counts.trained < counts.all ? fmt::format(", of which {:.2f} M are trained,", millions(counts.trained)) : "";
    print("{} with {:.2f} M parameters{} on {} ({}); {}\n", config_.network.entry->architecture, millions(counts.all),
          trained, mesh_.shape().describe(), mesh_.device().str(), describe_sizes(run_.sets));
    if (config_.train.epochs > 0.0)
      print("train.epochs = {} of {} samples, {} per step: {} steps\n", config_.train.epochs, source_.samples(),
            shape_.global(), config_.train.steps);
    if (has_run_out_of_patience())
      print("nothing is left to train: the run ended at step {} by eval.patience; raise it to continue\n",
            progress_.step);
    else if (progress_.step < config_.train.steps)
      print("first step {:.2f} s after the start; the run's files are in {}\n", start, config_.train.dir);
    else
      print("nothing is left to train: the run is at step {} of {}; raise {} to continue\n", progress_.step,
            config_.train.steps, config_.train.epochs > 0.0 ? "train.epochs" : "train.steps");
  }

  /// Metrics of this rank; values that are computed over all ranks are set later. Nullopt after a rollback.
  std::optional<StepMetrics> take_step() {
    RECORD_USER_SCOPE(fmt::format("step {}", progress_.step + 1));
    set_phase(fmt::format("step {}", progress_.step + 1));
    StepMetrics metrics;
    const auto begin = Clock::now();
    auto batches = next_batches();
    metrics.data_wait = seconds_between(begin, Clock::now());
    const size_t set = source_.set_at(progress_.position);
    model_.train_for(to_sentence_options(config_.sentences, run_.sets[set]));
    metrics.lr = config_.schedule().at(progress_.step);
    const auto [result, gradient_norm, finite] = update(batches, metrics.lr);
    metrics.loss = result.loss, metrics.grad_norm = gradient_norm;
    if (result.expert_load > 0.0) metrics.router_loss = result.router_loss, metrics.expert_load = result.expert_load;
    if (!finite && config_.train.on_nonfinite == "rollback") {
      progress_.position = source_.after(progress_.position);
      go_back(metrics.loss, metrics.grad_norm);
      return {};
    }
    if (!finite) {
      skip_or_reject_step(metrics.loss, metrics.grad_norm);
    } else if (result.target_count > 0) {
      model_.move_router_biases();
    } else {
      metrics.has_targets = false;
      print("step {} has no target, as all of its labels are {}: it changed nothing\n", progress_.step + 1,
            kIgnoredTarget);
    }
    progress_.position = source_.after(progress_.position);
    metrics.set = run_.sets[set].name;
    metrics.step = ++progress_.step;
    metrics.seconds = seconds_between(begin, Clock::now());
    metrics.step_samples = shape_.global();
    metrics.tokens = shape_.global() * run_.sets[set].training->tokens();
    metrics.samples = progress_.position.samples;
    if (peak_ && flops_per_row_[set])
      metrics.mfu = static_cast<double>(shape_.global()) * *flops_per_row_[set] / metrics.seconds /
                    (*peak_ * static_cast<double>(mesh_.world_size()));
    return metrics;
  }

  struct Updated {
    StepResult result;
    double gradient_norm;
    bool finite;  // if false, nothing was updated
  };

  /// Launches the entire step before it waits once for its results, so that a GPU stays busy.
  Updated update(const std::vector<Batch>& batches, double lr) {
    LaunchedStep launched = model_.launch_step(batches, progress_.step);
    const GradientNorm gradient = find_gradient_norm(model_.parameters(), mesh_, launched.loss());
    const int64_t steps = optimizer_.steps();
    if (launched.target_count > 0) {
      checkpoints_.wait_for_copy();
      optimizer_.step(lr, clipping_to(config_.optim.max_grad_norm, gradient));
      model_.parameters_changed();
    }
    set_waiting("the step's results");
    const int64_t numbers = launched.numbers.numel();
    const at::Tensor found =
        at::cat({launched.numbers, at::stack({gradient.norm, gradient.is_finite})}).cpu().contiguous();
    set_waiting({});
    launched.numbers = found.narrow(0, 0, numbers);
    const double* const of_gradient = found.const_data_ptr<double>() + numbers;
    const bool finite = of_gradient[1] != 0.0;
    if (!finite) optimizer_.set_steps(steps);
    return {model_.finish_step(launched), of_gradient[0], finite};
  }

  void report(const StepMetrics& metrics) {
    if (report_) report_->step(metrics);
    for (const Hooks& hook : hooks())
      if (hook.on_step) hook.on_step(metrics, mesh_);
  }

  /// This rank's batches of the step, prefetched during the previous one. Starts prefetching the next ones.
  std::vector<Batch> next_batches() {
    RECORD_USER_SCOPE("wait for data");
    auto batches = reading_.has_begun() ? reading_.take() : read(progress_.position);
    if (progress_.step + 1 < config_.train.steps) reading_.begin(source_.after(progress_.position));
    return batches;
  }

  /// This rank's batches of the step at `position`, in pinned memory for asynchronous copies to a GPU.
  std::vector<Batch> read(const DataPosition& position) const {
    auto batches = source_.at(position);
    if (mesh_.device().is_cpu()) return batches;
    const c10::DeviceGuard on_its_device(mesh_.device());
    for (Batch& batch : batches)
      batch.tensors([](at::Tensor& tensor) {
        if (tensor.defined()) tensor = tensor.pin_memory();
      });
    return batches;
  }

  /// Rolls back to the newest checkpoint and continues with the data after the failed step (as Chowdhery et al., PaLM,
  /// did by hand). Fails if it happens again before the next checkpoint, as it would repeat forever.
  void go_back(double loss, double norm) {
    checkpoints_.finish(progress_.step);
    const std::string what =
        fmt::format("step {}: the loss is {} and the gradient's norm {}", progress_.step + 1, loss, norm);
    if (checkpoints_.newest().empty())
      throw std::runtime_error(what + ", and there is no checkpoint to roll back to: lower checkpoint.every");
    if (progress_.step <= gone_back_until_)
      throw std::runtime_error(
          fmt::format("{}, again after rolling back to {}: lower optim.lr, or continue from an older checkpoint", what,
                      checkpoints_.newest().string()));
    const int64_t failed = progress_.step + 1;
    gone_back_until_ = progress_.step;
    checkpoints_.restore(checkpoints_.newest(), progress_);
    count_steps();
    if (report_) report_->rollback(failed, progress_.step);
    print("{}: the run continues from {} with the data after it\n", what, checkpoints_.newest().string());
    // With the new data position, so that a resumed run does not meet the same data again.
    checkpoints_.save(progress_);
  }

  /// Handles a step that is not finite. Collective: all ranks agree on the values that led here.
  void skip_or_reject_step(double loss, double norm) {
    const at::Tensor spoiled = at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(mesh_.device()));
    for (const auto& parameter : model_.parameters())
      if (parameter.local.numel() > 0) spoiled.add_(parameter.local.isfinite().all().logical_not());
    const bool weights = any_rank(mesh_.control(), spoiled.item<int>() != 0, "weights that are not finite");
    if (!weights && config_.train.on_nonfinite == "skip") {
      ++progress_.skipped;
      return print("step {} is skipped: its loss is {} and its gradient's norm {}\n", progress_.step + 1, loss, norm);
    }
    checkpoints_.finish(progress_.step);
    throw std::runtime_error(
        fmt::format("step {}: the loss is {} and the gradient's norm {}: {}", progress_.step + 1, loss, norm,
                    weights ? "weights are not finite; start from others, or continue from an older checkpoint"
                            : "lower optim.lr, lengthen optim.warmup_steps, or set optim.max_grad_norm"));
  }

  bool has_run_out_of_patience() const {
    return config_.eval.patience > 0 && progress_.best.since() >= config_.eval.patience;
  }

  /// Returns whether the model is better than at all previous evaluations.
  bool evaluate() {
    if (std::ranges::none_of(run_.sets, &RunDataset::has_validation)) return false;
    set_phase(fmt::format("evaluating after step {}", progress_.step));
    Evaluation evaluation = evaluate_sets(model_, config_, run_.sets, shape_);
    evaluation.step = progress_.step;
    if (report_) report_->evaluation(evaluation);
    for (const Hooks& hook : hooks())
      if (hook.on_evaluation) hook.on_evaluation(evaluation, mesh_);
    const bool is_best = progress_.best.add(evaluation);
    if (has_run_out_of_patience())
      print("{} evaluations were not better than the one after step {}, with {} {:.4f}: the run ends (eval.patience)\n",
            progress_.best.since(), *progress_.best.step(), progress_.best.name(), progress_.best.value());
    return is_best;
  }

  void write_sample() {
    if (!config_.sample.prompt.empty()) set_phase("sampling");
    const std::optional<std::string> text = sample_of_run(model_, config_);
    if (text && report_) report_->sample(*text);
  }

  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (mesh_.rank() == 0) print_to(stdout, format, std::forward<Arguments>(arguments)...);
  }

  Run& run_;
  RunConfig& config_;
  Mesh& mesh_;
  SaveSignals& signals_;
  const FolderLock* const lock_;
  ParallelModel model_;
  Optimizer optimizer_;
  BatchShape shape_;
  MixedSource source_;
  RunCheckpoints checkpoints_;
  std::optional<RunReport> report_;  // on rank 0
  StepTrace trace_;

  Progress progress_;

  Prefetcher reading_{[this](const DataPosition& position) { return read(position); }};  // the next step's
  int64_t gone_back_until_ = -1;                      // completed steps at the last step that was not finite
  std::optional<double> peak_;                        // of a rank's device, operations/s
  std::vector<std::optional<double>> flops_per_row_;  // per set
};

}  // namespace

int train(Run& run, Mesh& mesh, SaveSignals& signals) {
  // Checkpoints hold the generator's state, which must be the same in every run of a seed.
  at::manual_seed(static_cast<uint64_t>(run.config.train.seed));
  const fs::path folder = run.config.train.dir;
  std::optional<FolderLock> lock;
  if (mesh.rank() == 0) fs::create_directories(folder), lock.emplace(folder);
  check_shared(folder, run.config.checkpoint.shared, lock ? &*lock : nullptr, mesh);
  // Each rank with the folder has looked for the newest checkpoint by itself, and another may have appeared in between.
  run.checkpoint = broadcast_text(mesh.control(), run.checkpoint.string(), "the checkpoint's name");
  open_partitions(run.config, run.sets);
  return Trainer(run, mesh, signals, lock ? &*lock : nullptr).run();
}

}  // namespace modular
