#include "runtime/config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/config/config_errors.h"

namespace modular {
namespace {

constexpr size_t kDeepest = 100;        // levels; configs have four
constexpr int64_t kLargest = 16 << 20;  // bytes; another file by mistake may have any size

/// The length of the string at the beginning of `text`, with its quotes: to the end of the line where one that has to
/// end there does not.
size_t string_length(std::string_view text) {
  const std::string_view triple = text.substr(0, 3);
  const bool has_lines = triple == "\"\"\"" || triple == "'''";
  const std::string_view quotes = text.substr(0, has_lines ? 3 : 1);
  size_t end = quotes.size();
  for (; end < text.size() && !text.substr(end).starts_with(quotes); ++end) {
    if (text[end] == '\n' && !has_lines) return end;
    if (text[end] == '\\' && quotes.front() == '"') ++end;
  }
  end = std::min(text.size(), end + quotes.size());
  while (has_lines && end < text.size() && text[end] == quotes.front()) ++end;  // quotes before the last three
  return end;
}

}  // namespace

std::optional<int64_t> too_deep_line(std::string_view text) {
  int64_t line = 1;
  std::vector<size_t> open;  // for each open bracket the levels within it
  size_t dots = 0;           // of the key that is being read
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const size_t level = (open.empty() ? 0 : open.back()) + dots;
    if (c == '"' || c == '\'') {
      const std::string_view string = text.substr(i, string_length(text.substr(i)));
      line += std::ranges::count(string, '\n');
      i += string.size() - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      ++dots;
    } else if (c == '[' || c == '{') {
      open.push_back(level + 1);
      dots = 0;
    } else if (c == ']' || c == '}') {
      if (!open.empty()) open.pop_back();
      dots = 0;
    } else if (c == ',' || c == '\n') {
      dots = 0;
      line += c == '\n';
    }
    if (level > kDeepest) return line;
  }
  return {};
}

toml::table parse_toml_file(const std::filesystem::path& file, Links links) {
  const std::string name = file.string();
  std::string text;
  try {
    text = read_file(file, kLargest, links);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
  if (const auto line = too_deep_line(text))
    reject(fmt::format("{}:{}", name, *line), fmt::format("nests more than {} levels deep", kDeepest));
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    reject(fmt::format("{}:{}:{}", name, begin.line, begin.column), std::string(error.description()));
  }
}

}  // namespace modular
