// Output for terminals and for other programs.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace modular {

/// Returns `text` without sequences that a terminal interprets: replaces each control character other than line feed
/// and tab, each bidirectional override, and each byte that is not UTF-8 by '?'.
std::string printable(std::string_view text);

/// Number of bytes at the end of `text` that begin a UTF-8 character whose remaining bytes are missing.
size_t unfinished_bytes(std::string_view text);

/// Writes messages to a terminal or a pipe. They may contain names of files, keys and hosts from untrusted sources. A
/// closed terminal or pipe does not end the job.
template <class... Arguments>
void print_to(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

/// Writes the result of a command to standard output. main() flushes it at the end and reports write errors.
template <class... Arguments>
void print_result(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}", printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Text that a model generated or that other programs read, as standard output receives it: printable() on a terminal,
/// unchanged in a file or a pipe.
std::string as_output(std::string_view text);

/// print_result() for such text.
void print_data(std::string_view text);

}  // namespace modular
