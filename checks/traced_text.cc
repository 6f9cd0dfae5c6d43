#include "checks/traced_text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <regex>
#include <set>
#include <string_view>
#include <vector>

namespace modgen {
namespace {

/// The position of the next of the characters `wanted` from `begin` on that is outside brackets, strings and comments;
/// npos if there is none.
size_t find_outside(std::string_view text, size_t begin, std::string_view wanted) {
  int depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '/' && text.substr(at, 2) == "//") {
      at = text.find('\n', at);
      if (at == std::string_view::npos) return at;
      continue;
    }
    if (c == '"' || (c == '\'' && (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))))) {
      for (++at; at < text.size() && text[at] != c; ++at)
        if (text[at] == '\\') ++at;
      continue;
    }
    if (depth == 0 && wanted.find(c) != std::string_view::npos) return at;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '}' || c == ']') && --depth < 0) return std::string_view::npos;
  }
  return std::string_view::npos;
}

}  // namespace

std::string traced_text(const std::string& text) {
  // Statements begin a line. Braced initial values stay as they are: they have no type that a parameter can deduce.
  static const std::regex statement(R"((^|\n)[ ]+((const )?(auto|Tensor) \w+ =|\w[\w.]* =|return)\s+(?=[^\s{;=]))");
  std::vector<std::pair<size_t, std::string>> insertions;
  size_t line = 1, counted = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), statement), none; match != none; ++match) {
    const auto start = static_cast<size_t>(match->position()), begin = start + static_cast<size_t>(match->length());
    const size_t end = find_outside(text, begin, ",;");
    if (end == std::string::npos || text[end] == ',') continue;
    const size_t first = start + static_cast<size_t>((*match)[1].length());
    line += static_cast<size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                           text.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
    counted = first;
    insertions.emplace_back(begin, "modular::execute::traced(" + std::to_string(line) + ", ");
    insertions.emplace_back(end, ")");
  }
  std::ranges::stable_sort(insertions, {}, &std::pair<size_t, std::string>::first);
  std::string traced;
  size_t copied = 0;
  for (const auto& [at, added] : insertions) {
    traced.append(text, copied, at - copied).append(added);
    copied = at;
  }
  return traced.append(text, copied);
}

std::vector<std::string> compared_strings(const std::string& text) {
  static const std::regex comparison(R"re((?:[!=]= |_with\()"([\w.-]+)")re");
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), comparison), none; match != none; ++match)
    found.insert((*match)[1]);
  return {found.begin(), found.end()};
}

}  // namespace modgen
