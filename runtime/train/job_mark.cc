#include "runtime/train/job_mark.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// A unique name of the job: its launcher's random name, or the machine's boot id with the number and the start time of
/// the parent process.
std::string job_name() {
  if (const char* name = std::getenv("MODULAR_JOB"); name && *name) return std::string(name) + "\n";
  const pid_t parent = getppid();
  const fs::path stat = fmt::format("/proc/{}/stat", parent);
  if (!is_there(stat)) return fmt::format("process {} on a machine without /proc\n", parent);
  std::string status = read_file(stat);
  status.erase(0, status.rfind(')') + 1);  // after the program's name, which may contain anything
  constexpr int kFieldsBeforeStart = 19;
  size_t begin = 0;
  for (int field = 0; field < kFieldsBeforeStart; ++field) begin = status.find_first_of(' ', begin + 1);
  const std::string start = begin == std::string::npos ? "" : status.substr(begin, status.find(' ', begin + 1) - begin);
  return fmt::format("{}{}{}\n", read_file("/proc/sys/kernel/random/boot_id"), parent, start);
}

}  // namespace

void mark_job(const fs::path& folder) { write_file(folder / "run.job", job_name()); }

bool is_marked_by_this_job(const fs::path& folder) {
  return is_there(folder / "run.job") && read_file(folder / "run.job", /*most=*/1 << 16) == job_name();
}

}  // namespace modular
