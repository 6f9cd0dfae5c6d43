#include "runtime/train/metrics.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"

namespace modular {

namespace {

using Json = nlohmann::ordered_json;

std::string lines_until(const std::filesystem::path& path, int64_t step) {
  std::string kept;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);  // the last line may be cut off
    if (!json.is_object()) continue;
    const auto found = json.find("step");
    if (found == json.end() || (found->is_number_integer() && found->get<int64_t>() <= step)) kept += line + '\n';
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t step) : path_(path) {
  write_file(path, step > 0 ? lines_until(path, step) : "");
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
            {"seconds", metrics.seconds},
            {"samples", metrics.samples},
            {"memory_peak", metrics.memory_peak}};
  if (metrics.mfu) json["mfu"] = *metrics.mfu;
  write(json.dump());
}

void MetricsFile::evaluation(int64_t step, double held_out_loss, int64_t targets) {
  write(Json{{"event", "evaluation"}, {"step", step}, {"held_out_loss", held_out_loss}, {"targets", targets}}.dump());
}

void MetricsFile::rollback(int64_t failed, int64_t step) {
  write(Json{{"event", "rollback"}, {"step", step}, {"failed_step", failed}}.dump());
}

void MetricsFile::sample(int64_t step, const std::string& text) {
  write(Json{{"event", "sample"}, {"step", step}, {"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void MetricsFile::write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  if (!out_) throw std::runtime_error(path_.string() + ": cannot be written: " + std::strerror(errno));
}

std::string format_step(const StepMetrics& metrics, int64_t steps, double tokens_per_second, std::string_view unit) {
  const auto left =
      static_cast<int64_t>(static_cast<double>(metrics.tokens * (steps - metrics.step)) / tokens_per_second);
  const auto width = fmt::formatted_size("{}", steps);
  return fmt::format(
      "step {:>{}}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.2e}  {:.0f} {}/s  {:.2f} GiB{}  eta {}:{:02}", metrics.step,
      width, steps, metrics.loss, metrics.grad_norm, metrics.lr, tokens_per_second, unit,
      static_cast<double>(metrics.memory_peak) / (1 << 30),
      metrics.mfu ? fmt::format("  mfu {:.1f} %", *metrics.mfu * 100.0) : "", left / 60, left % 60);
}

double seconds_since_start() {
  std::ifstream in("/proc/self/stat");
  std::string stat(std::istreambuf_iterator<char>(in), {});
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));  // after the program's name, which may contain anything
  std::string field;
  for (int index = 3; index <= 22; ++index) fields >> field;  // field 22 is the start, in ticks since boot (proc(5))
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - std::stod(field) / ticks;
}

}  // namespace modular
