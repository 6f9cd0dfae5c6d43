// Applies a model's character map to a text by grapheme, as in the package tokenizers.
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
  /// `character_map` is NormalizerSpec's precompiled_charsmap, empty for none. Throws std::runtime_error if it is
  /// damaged.
  explicit Normalization(std::string_view character_map);

  /// A grapheme of less than 6 bytes is replaced by the map's entry for its shortest known prefix, and the rest of the
  /// grapheme is dropped; in other graphemes each character is replaced by its own entry. SentencePiece itself uses the
  /// longest prefixes, and drops nothing.
  std::string operator()(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view characters) const;
  void append(std::string_view grapheme, std::string& text) const;

  std::vector<uint32_t> trie_;  // a double array (Yata, Darts-clone)
  std::string replacements_;    // terminated by zeros
  std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> graphemes_{nullptr, ubrk_close};
};

}  // namespace modular
