// A trace of some steps of a run in Chrome's trace format, for viewers such as Perfetto.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace modular {

/// File name of a rank's trace.
std::string trace_file(int64_t rank);

/// Traces the first to the last of `steps`, on this thread and in the work it launches on `device`, including what
/// happens between the steps. Does not change the run's results.
class StepTrace {
 public:
  /// Traces nothing if `steps` is empty.
  StepTrace(std::filesystem::path file, const std::vector<int64_t>& steps, const at::Device& device);
  /// Writes the trace if the run ends before the last traced step.
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Call before and after each step. After the last one the file is written and replaces an older one. Throws
  /// std::runtime_error if it cannot be written.
  void begin(int64_t step);
  void end(int64_t step);

 private:
  void write();

  std::filesystem::path file_;
  int64_t first_ = 0, last_ = -1;
  at::Device device_;
  bool active_ = false;
};

}  // namespace modular
