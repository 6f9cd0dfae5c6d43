// Gap ownership: every byte between sibling declarations belongs to one of them, so that comments and layout stay with
// their code. The rest of a line belongs to the declaration before it, the lines above to the declaration after them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generator/source/span.h"

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

}  // namespace modgen
