// The job that started or last resumed a run's folder.
#pragma once

#include <filesystem>

namespace modular {

/// Records the launcher that started this process in `folder`, in the file run.job.
void mark_job(const std::filesystem::path& folder);

/// Whether the recorded launcher is this process's own. If so, a rank that the launcher restarted may continue from
/// what the previous ranks left in the folder.
bool is_marked_by_this_job(const std::filesystem::path& folder);

}  // namespace modular
