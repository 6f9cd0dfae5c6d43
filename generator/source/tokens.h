// Tokens of a text with matched brackets, for text that is read without Clang's parser.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "generator/source/slices.h"

namespace modgen {

/// A text's tokens without comments. Reading beyond the end gives an empty word. The text must outlive this object.
class Tokens {
 public:
  using Words = std::initializer_list<std::string_view>;

  explicit Tokens(const std::string& text);

  size_t size() const { return tokens_.size(); }
  std::string_view word(size_t at) const {
    return at < size() ? std::string_view(text_).substr(tokens_[at].begin, tokens_[at].end - tokens_[at].begin)
                       : std::string_view();
  }
  bool is_name(size_t at) const { return at < size() && tokens_[at].kind == RawToken::Kind::identifier; }
  bool opens(size_t at) const { return word(at) == "(" || word(at) == "[" || word(at) == "{"; }
  bool closes(size_t at) const { return word(at) == ")" || word(at) == "]" || word(at) == "}"; }
  /// The token that closes the bracket at `open`, and vice versa; size() if there is none.
  size_t closing(size_t open) const { return open < size() ? partner_[open] : size(); }
  size_t opening(size_t close) const { return close < size() ? partner_[close] : size(); }
  /// Whether the words from `at` on are `words`.
  bool reads(size_t at, Words words) const;
  /// The first `wanted` in [at, end) outside brackets that open there; `end` if there is none.
  size_t find(std::string_view wanted, size_t at, size_t end) const;

  /// The first token that begins at or after `offset` of the text; size() if there is none.
  size_t first_from(uint32_t offset) const;

  const std::string& text() const { return text_; }
  uint32_t begin(size_t at) const { return at < size() ? tokens_[at].begin : static_cast<uint32_t>(text_.size()); }
  uint32_t end(size_t at) const { return at < size() ? tokens_[at].end : static_cast<uint32_t>(text_.size()); }

 private:
  const std::string& text_;
  std::vector<RawToken> tokens_;
  std::vector<size_t> partner_;
};

}  // namespace modgen
