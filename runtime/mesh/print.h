// Words for whoever looks on.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace modular {

/// Writes to a terminal or a pipe, which may be gone by now: a job does not end because nobody looks on.
template <class... Arguments>
void print_to(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace modular
