// Text for terminals and for other programs.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace modular {

/// `text` without anything that a terminal obeys: control characters other than line feeds and tabs, characters that
/// reverse the direction of what follows, and bytes that are not UTF-8 each become '?'.
std::string printable(std::string_view text);

/// How many bytes at the end of `text` begin a character of UTF-8 whose other bytes are missing.
size_t unfinished_bytes(std::string_view text);

/// Writes messages, which name files, keys and hosts that others have named, to a terminal or a pipe. Either may be
/// closed already, which does not end a job.
template <class... Arguments>
void print_to(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

/// Writes the result of a command to standard output, to be flushed at its end, where main() reports what cannot be
/// written.
template <class... Arguments>
void print_result(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}", printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Text that a model generated or that other programs read, as standard output gets it: printable on a terminal,
/// unchanged in a file or a pipe.
std::string as_output(std::string_view text);

/// print_result() of such text.
void print_data(std::string_view text);

}  // namespace modular
