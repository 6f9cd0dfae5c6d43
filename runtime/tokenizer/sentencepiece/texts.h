// Converts texts to ids and back, with libsentencepiece.
#pragma once

#include <sentencepiece_processor.h>

#include <unicode/ubrk.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tokenizer/sentencepiece/definition.h"

namespace modular {

// Splits texts into added tokens and the text between them.

struct Part {
  const AddedToken* token = nullptr;  // null: text
  std::string_view text;
  bool is_first = false;  // whether it begins the text
};

class AddedTokens {
 public:
  explicit AddedTokens(const Definition& definition);

  /// Non-empty parts of a text: the leftmost token wins, and of tokens that begin at the same position the longest.
  std::vector<Part> parts(std::string_view text) const;

 private:
  std::vector<const AddedToken*> by_first_[256];  // by first byte; the longest first
};

/// Number of bytes of Unicode white space at the beginning or end of a text; 0 if there is none.
size_t space_at_begin(std::string_view text);
size_t space_at_end(std::string_view text);

/// All white space characters, in UTF-8.
const std::vector<std::string>& white_space();

// Applies a model's character map to a text by grapheme, as in the package tokenizers.

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

class Texts {
 public:
  /// Throws std::runtime_error if libsentencepiece rejects the model.
  explicit Texts(Definition definition);

  const Definition& definition() const { return definition_; }

  /// The ids of a text, without those around it.
  std::vector<int32_t> encode(std::string_view text) const;

  /// The text of ids, without special tokens.
  std::string decode(const std::vector<int64_t>& ids) const;

 private:
  void encode_part(const Part& part, std::vector<int32_t>& ids) const;
  std::string spaced(const Part& part) const;

  Definition definition_;
  AddedTokens added_;
  sentencepiece::SentencePieceProcessor processor_;
  Normalization normalization_;
};

}  // namespace modular
