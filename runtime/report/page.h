// A self-contained HTML page that shows runs and searches.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/report/run_history.h"
#include "runtime/search/study.h"

namespace modular {

/// A search and its folder.
struct SearchHistory {
  std::filesystem::path folder;
  StudyRecord study;
};

/// Maximum number of points per curve; longer curves are downsampled.
inline constexpr size_t kMostPoints = 2000;

/// Returns the page as UTF-8 text. Its data is embedded as JSON, with numbers of seven digits, in the element with the
/// id "data"; embedded scripts draw it. The page loads nothing, and equal histories give equal bytes.
std::string report_page(const std::vector<RunHistory>& runs, const std::vector<SearchHistory>& searches);

}  // namespace modular
