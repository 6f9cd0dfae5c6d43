#include "runtime/metrics/step_trace.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>

#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"

namespace modular {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::string trace_file(int64_t rank) { return fmt::format("rank-{}.json", rank); }

StepTrace::StepTrace(fs::path file, const std::vector<int64_t>& steps, const at::Device& device)
    : file_(std::move(file)), device_(device) {
  if (steps.empty()) return;
  first_ = steps.front(), last_ = steps.back();
  // Kineto reports a missing GPU as an error. It reads the log level at startup and has no function to set it.
  if (device.is_cpu()) setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
}

StepTrace::~StepTrace() {
  if (!active_) return;
  try {
    write();
  } catch (const std::exception& error) {
    print_to(stderr, "{}\n", error.what());
  }
}

void StepTrace::begin(int64_t step) {
  if (active_ || step < first_ || step > last_) return;
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device_.is_cuda()) activities.insert(ActivityType::CUDA);
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  active_ = true;
}

void StepTrace::end(int64_t step) {
  if (active_ && step >= last_) write();
}

void StepTrace::write() {
  active_ = false;
  const auto traced = profiler::disableProfiler();
  std::error_code error;
  check_no_links(run_path(file_));
  fs::create_directories(file_.parent_path(), error);
  fs::remove(file_, error);  // libtorch does not report failed writes
  traced->save(file_.string());
  if (!fs::exists(file_))
    throw std::runtime_error(fmt::format(
        "{}: the trace cannot be written: make its folder writable, free disk space, or leave metrics.trace out",
        file_.string()));
}

}  // namespace modular
