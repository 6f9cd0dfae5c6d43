// Which job a run's folder was begun or continued by.
#pragma once

#include <filesystem>

namespace modular {

/// Notes in `folder` the launcher that started this process, in the file run.job.
void mark_job(const std::filesystem::path& folder);

/// Whether that is the launcher of this process too: then a rank that a launcher started again may continue with what
/// the ranks before it left there.
bool is_marked_by_this_job(const std::filesystem::path& folder);

}  // namespace modular
