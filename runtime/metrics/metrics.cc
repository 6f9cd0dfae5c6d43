#include "runtime/metrics/metrics.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/config/renamed_keys.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tensors.h"

namespace modular {

namespace {

using Json = nlohmann::ordered_json;

/// Whether to keep a line in a run that continues after `step`. The last line may be truncated.
bool is_kept(const std::string& line, int64_t step) {
  const auto json = parse_json(line);
  if (!json.is_object()) return false;
  const auto found = json.find("step");
  return found == json.end() || (found->is_number_integer() && found->get<int64_t>() <= step);
}

/// The lines of a run's file, in order; nullopt if the file does not exist.
std::optional<LineReader> split_lines(const std::filesystem::path& path) {
  if (!is_there(path)) return {};
  return std::optional<LineReader>(std::in_place, path);
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t step) : path_(path) {
  auto lines = step > 0 ? split_lines(path) : std::nullopt;
  write_file(path, [&]() -> std::optional<std::string> {
    for (std::string line; lines && lines->next(line);)
      if (is_kept(line, step)) return line + '\n';
    return {};
  });
  out_.open(path, std::ios::app);
  if (!out_) throw std::runtime_error(path.string() + ": cannot be written: " + std::strerror(errno));
}

void MetricsFile::start(int64_t first_step, int64_t ranks, const std::string& mesh, int64_t parameters,
                        double start_to_first_step) {
  write(Json{{"event", "start"},
             {"step", first_step},
             {"ranks", ranks},
             {"mesh", mesh},
             {"parameters", parameters},
             {"start_to_first_step", start_to_first_step}}
            .dump());
}

void MetricsFile::step(const StepMetrics& metrics) {
  Json json{{"step", metrics.step},
            {"loss", metrics.loss},
            {"grad_norm", metrics.grad_norm},
            {"lr", metrics.lr},
            {"tokens_per_second", static_cast<double>(metrics.tokens) / metrics.seconds},
            {"samples_per_second", static_cast<double>(metrics.step_samples) / metrics.seconds},
            {"seconds", metrics.seconds},
            {"data_wait", metrics.data_wait},
            {"samples", metrics.samples},
            {"memory_peak", metrics.memory_peak}};
  if (!metrics.has_targets) json.erase("loss");
  if (metrics.router_loss) json["router_loss"] = *metrics.router_loss;
  if (metrics.expert_load) json["expert_load"] = *metrics.expert_load;
  if (!metrics.set.empty()) json["set"] = metrics.set;
  if (metrics.mfu) json["mfu"] = *metrics.mfu;
  write(json.dump());
}

void MetricsFile::evaluation(const Evaluation& evaluation) {
  Json json{{"event", "evaluation"},
            {"step", evaluation.step},
            {"val_loss", evaluation.loss},
            {"targets", evaluation.targets}};
  if (evaluation.targets == 0) json.erase("val_loss");
  for (const auto& [name, value] : evaluation.metrics) json["metrics"][name] = value;
  write(json.dump());
}

void MetricsFile::rollback(int64_t failed, int64_t step) {
  write(Json{{"event", "rollback"}, {"step", step}, {"failed_step", failed}}.dump());
}

void MetricsFile::sample(int64_t step, const std::string& text) {
  write(Json{{"event", "sample"}, {"step", step}, {"text", as_utf8(text)}}.dump());
}

void MetricsFile::end(const RunSummary& summary) {
  Json json{{"event", "end"},
            {"step", summary.step},
            {"steps", summary.steps},
            {"samples", summary.samples},
            {"tokens", summary.tokens},
            {"seconds", summary.seconds},
            {"tokens_per_second", summary.tokens_per_second()},
            {"memory_peak", summary.memory_peak}};
  if (summary.last) json["val_loss"] = summary.last->loss;
  if (summary.best) json["best_val_loss"] = summary.best->loss, json["best_step"] = summary.best->step;
  if (!summary.checkpoints.empty()) json["checkpoints"] = as_utf8(summary.checkpoints);
  if (!summary.stopped_by.empty()) json["stopped_by"] = summary.stopped_by;
  write(json.dump());
}

void MetricsFile::write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  if (!out_) throw std::runtime_error(path_.string() + ": cannot be written: " + std::strerror(errno));
}

void forget_after(int64_t step, std::vector<Evaluation>& evaluations) {
  while (!evaluations.empty() && evaluations.back().step > step) evaluations.pop_back();
}

std::vector<Evaluation> read_evaluations(const std::filesystem::path& path) {
  std::vector<Evaluation> evaluations;
  auto lines = split_lines(path);
  for (std::string line; lines && lines->next(line);) {
    const auto json = parse_json(line);
    if (!json.is_object()) continue;
    const auto event = json.value("event", nlohmann::json());
    const auto step = json.find("step"), loss = find_val_loss(json), targets = json.find("targets");
    if (step == json.end() || !step->is_number_integer()) continue;
    if (event == "rollback") forget_after(step->get<int64_t>(), evaluations);
    const bool has_loss = loss != json.end() && loss->is_number(), has_none = targets != json.end() && *targets == 0;
    if (event != "evaluation" || (!has_loss && !has_none)) continue;
    Evaluation& evaluation = evaluations.emplace_back();
    evaluation.step = step->get<int64_t>();
    if (has_loss) evaluation.loss = loss->get<double>();
    if (targets != json.end() && targets->is_number_integer()) evaluation.targets = targets->get<int64_t>();
    const auto metrics = json.value("metrics", nlohmann::json::object());
    for (const auto& [name, value] : metrics.items())
      if (value.is_number()) evaluation.metrics.emplace_back(current_metric(name), value.get<double>());
  }
  return evaluations;
}

bool has_ended(const std::filesystem::path& path, int64_t step) {
  auto lines = split_lines(path);
  for (std::string line; lines && lines->next(line);) {
    const auto json = parse_json(line);
    if (json.is_object() && json.value("event", nlohmann::json()) == "end" &&
        json.value("step", nlohmann::json()) == step && !json.contains("stopped_by"))
      return true;
  }
  return false;
}

std::string as_utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

void StepSums::add(const StepMetrics& metrics) {
  seconds += metrics.seconds;
  data_wait += metrics.data_wait;
  tokens += metrics.tokens;
  samples += metrics.step_samples;
}

namespace {

/// "0:07", "59:59", "1:00:00"
std::string duration(double seconds) {
  constexpr double kLongest = 1e15;
  if (!(seconds < kLongest)) return "unknown";  // no time or no samples counted yet
  const auto whole = static_cast<int64_t>(std::max(seconds, 0.0));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

double gibibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

std::string format_step(const StepMetrics& metrics, int64_t steps, const StepSums& since_line, bool has_text) {
  const double samples_per_second = static_cast<double>(since_line.samples) / since_line.seconds,
               samples_left = static_cast<double>(metrics.step_samples) * static_cast<double>(steps - metrics.step);
  const std::string rate =
      has_text ? fmt::format("{:.0f} tokens/s  {:.1f} samples/s",
                             static_cast<double>(since_line.tokens) / since_line.seconds, samples_per_second)
               : fmt::format("{:.1f} examples/s", samples_per_second);
  return fmt::format(
      "step {:>{}}/{}  loss {}  grad norm {:.3f}  lr {:.2e}  {}  data wait {:.0f} %  {:.2f} GiB{}  eta {}",
      metrics.step, fmt::formatted_size("{}", steps), steps,
      metrics.has_targets ? fmt::format("{:.4f}", metrics.loss) : "none", metrics.grad_norm, metrics.lr, rate,
      100.0 * since_line.data_wait / since_line.seconds, gibibytes(metrics.memory_peak),
      metrics.mfu ? fmt::format("  mfu {:.1f} %", *metrics.mfu * 100.0) : "",
      duration(samples_left / samples_per_second));
}

std::string format_evaluation(const Evaluation& evaluation, std::string_view loss_unit) {
  if (evaluation.targets == 0) return fmt::format("no validation loss, as all labels are {}", kIgnoredTarget);
  std::string text = fmt::format("validation loss {:.4f} {}", evaluation.loss, loss_unit);
  for (const auto& [name, value] : evaluation.metrics) text += fmt::format(", {} {:.4f}", name, value);
  return text;
}

std::string format_summary(const RunSummary& summary, int64_t steps, std::string_view loss_unit, bool has_text) {
  std::string text;
  if (!summary.stopped_by.empty())
    text += fmt::format("stopped by {} after step {} of {}{}\n", summary.stopped_by, summary.step, steps,
                        summary.checkpoints.empty() ? "" : ": --resume continues it");
  text += fmt::format("trained {} steps in {}: ", summary.steps, duration(summary.seconds));
  text += has_text ? fmt::format("{} samples, {:.2f} M tokens, {:.0f} tokens/s\n", summary.samples,
                                 static_cast<double>(summary.tokens) * 1e-6, summary.tokens_per_second())
                   : fmt::format("{} examples, {:.1f} examples/s\n", summary.samples, summary.tokens_per_second());
  if (summary.last)
    text += fmt::format("last validation loss {:.4f} {} after step {}, best {:.4f} after step {}\n", summary.last->loss,
                        loss_unit, summary.last->step, summary.best->loss, summary.best->step);
  return text + fmt::format("at most {:.2f} GiB of memory on a rank; {}\n", gibibytes(summary.memory_peak),
                            summary.checkpoints.empty() ? "no checkpoint was written, as checkpoint.every is -1"
                                                        : "checkpoints are in " + summary.checkpoints);
}

namespace {

const auto loaded_at = std::chrono::steady_clock::now();

/// Fallback without /proc; too small by some tenths of a second.
double seconds_since_load() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - loaded_at).count();
}

}  // namespace

double seconds_since_start() {
  std::ifstream in("/proc/self/stat");
  std::string stat(std::istreambuf_iterator<char>(in), {});
  if (stat.empty()) return seconds_since_load();
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));  // the program's name before it may contain anything
  std::string field;
  for (int index = 3; index <= 22; ++index) fields >> field;  // field 22 is the start, in ticks since boot (proc(5))
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - std::stod(field) / ticks;
}

}  // namespace modular
