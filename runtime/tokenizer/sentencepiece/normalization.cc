#include "runtime/tokenizer/sentencepiece/normalization.h"

#include <unicode/utext.h>

#include <cstring>
#include <stdexcept>

namespace modular {
namespace {

constexpr size_t kShortGrapheme = 6;  // bytes

[[noreturn]] void reject_map() {
  throw std::runtime_error("the model's map of characters is damaged: write or copy the file again");
}

/// A unit of the double array, in the layout of Darts-clone.
struct Unit {
  uint32_t bits;

  bool has_leaf() const { return (bits >> 8 & 1) == 1; }
  uint32_t value() const { return bits & 0x7FFFFFFFU; }
  uint32_t label() const { return bits & 0x800000FFU; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200U) >> 6); }
};

/// Number of bytes of the UTF-8 character that begins with `first`.
size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

Normalization::Normalization(std::string_view character_map) {
  if (character_map.empty()) return;
  uint32_t bytes = 0;
  if (character_map.size() < sizeof(bytes)) reject_map();
  std::memcpy(&bytes, character_map.data(), sizeof(bytes));
  character_map.remove_prefix(sizeof(bytes));
  if (bytes == 0 || bytes % sizeof(uint32_t) != 0 || bytes > character_map.size()) reject_map();
  trie_.resize(bytes / sizeof(uint32_t));
  std::memcpy(trie_.data(), character_map.data(), bytes);
  replacements_ = character_map.substr(bytes);
  UErrorCode status = U_ZERO_ERROR;
  graphemes_.reset(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status));
  if (U_FAILURE(status)) throw std::runtime_error(std::string("ICU cannot find graphemes: ") + u_errorName(status));
}

std::optional<std::string_view> Normalization::replacement(std::string_view characters) const {
  const auto unit = [&](size_t at) {
    if (at >= trie_.size()) reject_map();
    return Unit{trie_[at]};
  };
  size_t node = unit(0).offset();
  for (const char character : characters) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte == 0) return {};
    node ^= byte;
    const Unit here = unit(node);
    if (here.label() != byte) return {};
    node ^= here.offset();
    if (!here.has_leaf()) continue;
    const size_t begin = unit(node).value();
    if (begin > replacements_.size()) reject_map();
    return std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
  }
  return {};
}

void Normalization::append(std::string_view grapheme, std::string& text) const {
  if (grapheme.size() < kShortGrapheme)
    if (const auto replaced = replacement(grapheme)) {
      text += *replaced;
      return;
    }
  while (!grapheme.empty()) {
    const std::string_view character = grapheme.substr(0, character_size(grapheme.front()));
    text += replacement(character).value_or(character);
    grapheme.remove_prefix(character.size());
  }
}

std::string Normalization::operator()(std::string_view text) const {
  if (trie_.empty()) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  UText* of_icu = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
  const std::unique_ptr<UText, decltype(&utext_close)> closed(of_icu, utext_close);
  ubrk_setUText(graphemes_.get(), of_icu, &status);
  if (U_FAILURE(status)) throw std::runtime_error(std::string("ICU rejects the text: ") + u_errorName(status));
  std::string normalized;
  int32_t begin = ubrk_first(graphemes_.get());
  for (int32_t end; (end = ubrk_next(graphemes_.get())) != UBRK_DONE; begin = end)
    append(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), normalized);
  return normalized;
}

}  // namespace modular
