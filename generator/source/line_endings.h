// Line endings: modgen works on text with "
// " line endings. Files of a checkout may have "\r
// ".
#pragma once

#include <string>
#include <string_view>

namespace modgen {

/// `text` with each "\r\n", and each other "\r", replaced by "\n". Line and column numbers stay the same.
std::string with_unix_lines(std::string_view text);

/// A change of bytes [begin, end).
struct ByteEdit {
  size_t begin = 0, end = 0;
  std::string text;
};

/// The edit of `text` that corresponds to `edit` of with_unix_lines(text). Its new lines get the line ending at its
/// location.
ByteEdit with_endings_like(std::string_view text, ByteEdit edit);

}  // namespace modgen
