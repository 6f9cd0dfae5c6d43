// How a model's map of characters replaces them in a text, as the package tokenizers applies it: by grapheme.
#pragma once

#include <unicode/ubrk.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

class Normalization {
 public:
  /// `character_map` is NormalizerSpec's precompiled_charsmap, empty for none. Throws std::runtime_error in one
  /// sentence where it is damaged.
  explicit Normalization(std::string_view character_map);

  /// A grapheme of less than 6 bytes becomes what the map has for the shortest of its beginnings that it knows, with
  /// which the rest is dropped; otherwise each character becomes what the map has for it. SentencePiece itself takes
  /// the longest beginnings, and drops nothing.
  std::string operator()(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view characters) const;
  void append(std::string_view grapheme, std::string& text) const;

  std::vector<uint32_t> trie_;  // a double array (Yata, Darts-clone)
  std::string replacements_;    // each ended by a zero
  std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> graphemes_{nullptr, ubrk_close};
};

}  // namespace modular
