#include "checks/unified_diff.h"

#include <dtl/dtl.hpp>
#include <sstream>
#include <vector>

namespace modgen {

namespace {

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string line(text.substr(0, end));
    if (line.ends_with('\r')) line.replace(line.size() - 1, 1, "^M");
    if (end == std::string_view::npos) line += "\n\\ No newline at end of file";
    lines.push_back(std::move(line));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::string unified_diff(std::string_view before_name, std::string_view before, std::string_view after_name,
                         std::string_view after) {
  if (before == after) return "";
  dtl::Diff<std::string> diff(split_lines(before), split_lines(after));
  diff.onHuge();
  diff.compose();
  diff.composeUnifiedHunks();
  std::ostringstream text;
  text << "--- " << before_name << "\n+++ " << after_name << '\n';
  diff.printUnifiedFormat(text);
  return text.str();
}

}  // namespace modgen
