// Text that is read without Clang's parser: its tokens, with matched brackets, and gap ownership, by which every byte
// between sibling declarations belongs to one of them, so that comments and layout stay with their code. The rest of a
// line belongs to the declaration before it, the lines above to the declaration after them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "generator/source/span.h"

namespace clang {
class LangOptions;
}  // namespace clang

namespace modgen {

struct RawToken {
  enum class Kind { identifier, comment, string, punctuation, other };
  Kind kind;
  uint32_t begin, end;
};

/// The tokens that begin in [begin, end) of `text`, including comments, without macro expansion.
std::vector<RawToken> raw_tokens(const std::string& text, uint32_t begin, uint32_t end);

/// Divides [region.begin, region.end) among `cores`, which are in order and do not overlap. Each gets its own bytes, a
/// separator (`;` or `,`) that follows, the comment after it on its line, and the lines above it. One more slice holds
/// the text after the last line. The slices concatenate to the region.
std::vector<SourceSpan> own_gaps(const std::string& text, SourceSpan region, const std::vector<SourceSpan>& cores);

/// The offset after the whitespace (without line breaks) and comments that follow `offset` on its line; `offset` itself
/// if more code follows.
uint32_t after_line_comment(const std::string& text, uint32_t offset);

/// The offset of the first token at or after `offset` that is not a comment.
uint32_t next_code(const std::string& text, uint32_t offset);

/// The comments at the beginning of `slice`; empty if it begins with code.
SourceSpan leading_comment(const std::string& text, SourceSpan slice);

/// The C++20 options of the compiler that reads specs.
const clang::LangOptions& language_of_specs();

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
