#include "generator/source/line_endings.h"

#include <algorithm>

namespace modgen {

namespace {

/// Number of bytes of `text` at `offset` that become one byte with "
/// " line endings: 2 for "\r
/// ".
size_t length_at(std::string_view text, size_t offset) { return text.substr(offset, 2) == "\r\n" ? 2 : 1; }

/// The ending of the line that `offset` is in; that of the line before if it is the last and has none.
std::string_view ending_at(std::string_view text, size_t offset) {
  size_t end = text.find('\n', offset);
  if (end == std::string_view::npos) end = text.rfind('\n');
  return end != std::string_view::npos && end > 0 && text[end - 1] == '\r' ? "\r\n" : "\n";
}

}  // namespace

std::string with_unix_lines(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += length_at(text, at)) result += text[at] == '\r' ? '\n' : text[at];
  return result;
}

ByteEdit with_endings_like(std::string_view text, ByteEdit edit) {
  size_t offset = 0, unix_offset = 0;
  const auto advance_to = [&](size_t goal) {
    for (; unix_offset < goal && offset < text.size(); ++unix_offset) offset += length_at(text, offset);
    return offset;
  };
  ByteEdit result;
  result.begin = advance_to(edit.begin);
  result.end = advance_to(edit.end);
  const std::string_view ending = ending_at(text, result.begin);
  for (const char c : edit.text) c == '\n' ? result.text += ending : result.text += c;
  return result;
}

}  // namespace modgen
