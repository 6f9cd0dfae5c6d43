#include "runtime/metrics/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/datasets/run_datasets.h"
#include "runtime/mesh/print.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

fs::path metrics_path(const TrainSection& train) { return fs::path(train.dir) / "metrics.jsonl"; }

}  // namespace

RunReport::RunReport(const RunConfig& config, int64_t step, bool has_text)
    : config_(config), has_text_(has_text), file_(metrics_path(config.train), step) {
  if (config.metrics.tensorboard) events_.emplace(config.train.event_files(), step + 1);
  if (!config.metrics.wandb.empty()) wandb_.emplace(config);
  summary_.step = step;
  if (config.checkpoint.every >= 0) summary_.checkpoints = config.train.checkpoints();
  evaluations_ = read_evaluations(metrics_path(config.train));
}

void RunReport::start(int64_t ranks, const std::string& mesh, int64_t parameters, double start_to_first_step) {
  file_.start(summary_.step, ranks, mesh, parameters, start_to_first_step);
  began_ = Clock::now();
}

void RunReport::step(const StepMetrics& metrics) {
  file_.step(metrics);
  if (events_ || wandb_) {
    const double seconds = metrics.seconds;
    std::vector<Scalar> scalars = {
        {"grad_norm", metrics.grad_norm},
        {"lr", metrics.lr},
        {"tokens_per_second", static_cast<double>(metrics.tokens) / seconds},
        {"samples_per_second", static_cast<double>(metrics.step_samples) / seconds},
        {"data_wait", metrics.data_wait},
        {"memory_peak", static_cast<double>(metrics.memory_peak)},
    };
    if (metrics.has_targets) scalars.insert(scalars.begin(), {"loss", metrics.loss});
    if (metrics.router_loss) scalars.push_back({"router_loss", *metrics.router_loss});
    if (metrics.expert_load) scalars.push_back({"expert_load", *metrics.expert_load});
    if (metrics.mfu) scalars.push_back({"mfu", *metrics.mfu});
    log(metrics.step, scalars);
  }

  summary_.step = metrics.step;
  ++summary_.steps;
  summary_.samples += metrics.step_samples;
  summary_.tokens += metrics.tokens;
  summary_.seconds_of_steps += metrics.seconds;
  summary_.memory_peak = std::max(summary_.memory_peak, metrics.memory_peak);

  since_line_.add(metrics);
  const int64_t steps = config_.train.steps;
  if (metrics.step % config_.metrics.every != 0 && metrics.step != steps && since_line_.seconds < 10.0) return;
  print_to(stdout, "{}\n", format_step(metrics, steps, since_line_, has_text_));
  since_line_ = {};
}

void RunReport::rollback(int64_t failed, int64_t step) {
  file_.rollback(failed, step);
  if (events_) events_->restart(step + 1);
  forget_after(step, evaluations_);
  summary_.step = step;
}

void RunReport::evaluation(const Evaluation& evaluation) {
  file_.evaluation(evaluation);
  if ((events_ || wandb_) && evaluation.targets > 0) {
    std::vector<Scalar> scalars = {{"val_loss", evaluation.loss}};
    for (const auto& [name, value] : evaluation.metrics) scalars.push_back({name, value});
    log(evaluation.step, scalars);
  }
  evaluations_.push_back(evaluation);
  print_to(stdout, "{} after step {}\n", format_evaluation(evaluation, loss_unit(config_.network)), evaluation.step);
}

void RunReport::sample(const std::string& text) {
  file_.sample(summary_.step, text);
  if (events_) events_->text(summary_.step, "sample", as_utf8(text));
  const std::string shown = as_output(text + "\n");
  std::fwrite(shown.data(), 1, shown.size(), stdout);  // which may be closed, as in print_to()
  std::fflush(stdout);
}

void RunReport::log(int64_t step, std::span<const Scalar> scalars) {
  if (events_) events_->scalars(step, scalars);
  if (wandb_) wandb_->log(step, scalars);
}

void RunReport::end(int signal) {
  if (wandb_) wandb_->end(signal == 0 ? 0 : 128 + signal);
  if (summary_.steps == 0 && (signal != 0 || has_ended(metrics_path(config_.train), summary_.step))) return;
  summary_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (signal != 0) summary_.stopped_by = fmt::format("SIG{}", sigabbrev_np(signal));
  std::erase_if(evaluations_, [](const Evaluation& evaluation) { return evaluation.targets == 0; });
  if (!evaluations_.empty()) {
    summary_.last = evaluations_.back();
    summary_.best = *std::ranges::min_element(evaluations_, {}, &Evaluation::loss);
  }
  file_.end(summary_);
  print_to(stdout, "{}", format_summary(summary_, config_.train.steps, loss_unit(config_.network), has_text_));
}

}  // namespace modular
