// A trace of some steps of a run: what each rank did when, for a viewer of Chrome's trace format such as Perfetto.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace modular {

/// What the file of a rank's trace is called.
std::string trace_file(int64_t rank);

/// Traces the steps from the first to the last of `steps`, on this thread and what it starts on `device`. What is done
/// between them is traced as well. Computes nothing: a run with it is the run without it.
class StepTrace {
 public:
  /// `steps` is empty where nothing is traced.
  StepTrace(std::filesystem::path file, const std::vector<int64_t>& steps, const at::Device& device);
  /// Writes what was traced, where the run ends between the steps.
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  /// Before a step, and when it is done. After the last one the file is written, in place of an older one; throws
  /// std::runtime_error where it cannot be.
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
