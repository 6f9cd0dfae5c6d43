// The page that shows runs and searches: one HTML file that needs nothing else.
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

/// The most points of a curve that the page holds; longer ones are thinned.
inline constexpr size_t kMostPoints = 2000;

/// The page as text, in UTF-8. What it shows stands in it as JSON, in the element whose id is "data", with numbers of
/// seven digits; programs within it draw that. It loads nothing, and the same histories give the same bytes.
std::string report_page(const std::vector<RunHistory>& runs, const std::vector<SearchHistory>& searches);

}  // namespace modular
