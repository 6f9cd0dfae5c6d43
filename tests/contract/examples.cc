#include "tests/contract/examples.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace contract {
namespace {

/// A line without its comment, and with empty string literals.
std::string get_code(const std::string& line) {
  static const std::regex string(R"("[^"]*")");
  const std::string code = std::regex_replace(line.substr(0, line.find("//")), string, "\"\"");
  return code.substr(0, code.find_last_not_of(' ') + 1);
}

/// Whether a line ends a statement, a declaration or a block header.
bool ends_statement(const std::string& line) {
  static const std::regex last(R"(.*[;{}:]|\s*(if|for|while) \(.*\)|#.*|)");
  return std::regex_match(get_code(line), last);
}

/// The lines of the statement that contains line `at`.
std::vector<std::string> statement(const std::vector<std::string>& lines, size_t at) {
  size_t begin = at, end = at;
  while (begin > 0 && !ends_statement(lines[begin - 1])) --begin;
  while (end + 1 < lines.size() && !ends_statement(lines[end])) ++end;
  return {lines.begin() + static_cast<ptrdiff_t>(begin), lines.begin() + static_cast<ptrdiff_t>(end) + 1};
}

std::string without_indentation(const std::vector<std::string>& lines) {
  size_t least = std::string::npos;
  for (const std::string& line : lines) least = std::min(least, line.find_first_not_of(' '));
  std::string code;
  for (const std::string& line : lines) code += (code.empty() ? "" : "\n") + line.substr(least);
  return code;
}

}  // namespace

Examples::Examples(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    Spec spec{entry.path().filename().string(), {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) spec.lines.push_back(line);
    specs_.push_back(std::move(spec));
  }
  if (specs_.empty()) throw std::runtime_error(folder + " contains no spec");
  std::sort(specs_.begin(), specs_.end(), [](const Spec& a, const Spec& b) { return a.file < b.file; });
}

std::optional<Example> Examples::find(const std::string& name, bool called) const {
  const std::regex word("(^|[^\\w:.>])" + name + (called ? "(<[^;]*>)?\\(" : "\\b"));
  std::optional<Example> shortest;
  for (const Spec& spec : specs_) {
    for (size_t at = 0; at < spec.lines.size(); ++at) {
      const std::string code = get_code(spec.lines[at]);
      if (code.starts_with('#') || !std::regex_search(code, word)) continue;
      std::string found = without_indentation(statement(spec.lines, at));
      if (!shortest || found.size() < shortest->code.size()) shortest = Example{spec.file, std::move(found)};
    }
  }
  return shortest;
}

}  // namespace contract
