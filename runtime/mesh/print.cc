#include "runtime/mesh/print.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace modular {
namespace {

/// Length that the first byte of a character announces; 0 for a byte that does not begin a character.
size_t announced_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

struct Character {
  uint32_t code = 0;
  size_t length = 0;
};

/// Decodes the UTF-8 character at the beginning of `text`; nullopt if it is incomplete or malformed.
std::optional<Character> first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t length = announced_length(first);
  if (length == 0 || length > text.size()) return std::nullopt;
  uint32_t code = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (const char byte : text.substr(1, length - 1)) {
    if ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80U) return std::nullopt;
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kLeast[length] || code > 0x10FFFF || is_surrogate) return std::nullopt;
  return Character{code, length};
}

bool is_obeyed(uint32_t code) {
  const bool is_control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
  const bool reverses = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return is_control || reverses;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto character = first_character(text);
    const size_t length = character ? character->length : 1;
    if (character && !is_obeyed(character->code))
      shown += text.substr(0, length);
    else
      shown += '?';
    text.remove_prefix(length);
  }
  return shown;
}

size_t unfinished_bytes(std::string_view text) {
  for (size_t count = 1; count <= std::min<size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if ((byte & 0xC0U) != 0x80U) return announced_length(byte) > count ? count : 0;
  }
  return 0;
}

std::string as_output(std::string_view text) { return isatty(STDOUT_FILENO) ? printable(text) : std::string(text); }

void print_data(std::string_view text) { fmt::print("{}", as_output(text)); }

}  // namespace modular
