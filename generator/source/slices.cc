#include "generator/source/slices.h"

#include <clang/Basic/LangOptions.h>
#include <clang/Lex/Lexer.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <string>
#include <vector>

namespace modgen {

const clang::LangOptions& language_of_specs() {
  static const clang::LangOptions options = [] {
    clang::LangOptions result;
    std::vector<std::string> includes;
    clang::LangOptions::setLangDefaults(result, clang::Language::CXX, llvm::Triple(), includes,
                                        clang::LangStandard::lang_cxx20);
    return result;
  }();
  return options;
}

namespace {

/// Calls `take` for each token that begins in [begin, end), until it returns false.
template <class Take>
void lex(const std::string& text, uint32_t begin, uint32_t end, Take&& take) {
  clang::Lexer lexer(clang::SourceLocation(), language_of_specs(), text.c_str(), text.c_str() + begin,
                     text.c_str() + text.size());
  lexer.SetCommentRetentionState(true);
  for (clang::Token token;;) {
    lexer.LexFromRawLexer(token);
    // Without a source manager a token's end is the lexer's position.
    const auto next = static_cast<uint32_t>(lexer.getBufferLocation() - text.c_str());
    const uint32_t first = next - token.getLength();
    if (token.is(clang::tok::eof) || first >= end) return;
    RawToken::Kind kind = RawToken::Kind::other;
    if (token.is(clang::tok::raw_identifier))
      kind = RawToken::Kind::identifier;
    else if (token.is(clang::tok::comment))
      kind = RawToken::Kind::comment;
    else if (clang::tok::isStringLiteral(token.getKind()))
      kind = RawToken::Kind::string;
    else if (!clang::tok::isLiteral(token.getKind()))
      kind = RawToken::Kind::punctuation;
    if (!take(RawToken{kind, first, next})) return;
  }
}

}  // namespace

std::vector<RawToken> raw_tokens(const std::string& text, uint32_t begin, uint32_t end) {
  std::vector<RawToken> tokens;
  lex(text, begin, end, [&](const RawToken& token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

uint32_t next_code(const std::string& text, uint32_t offset) {
  auto found = static_cast<uint32_t>(text.size());
  lex(text, offset, found, [&](const RawToken& token) {
    if (token.kind == RawToken::Kind::comment) return true;
    found = token.begin;
    return false;
  });
  return found;
}

SourceSpan leading_comment(const std::string& text, SourceSpan slice) {
  SourceSpan comment{slice.file, slice.begin, slice.begin};
  lex(text, slice.begin, slice.end, [&](const RawToken& token) {
    if (token.kind != RawToken::Kind::comment) return false;
    if (comment.begin == comment.end) comment.begin = token.begin;
    comment.end = token.end;
    while (comment.end > comment.begin && text[comment.end - 1] == '\n') --comment.end;
    return true;
  });
  return comment;
}

uint32_t after_line_comment(const std::string& text, uint32_t offset) {
  uint32_t position = offset;
  while (position < text.size()) {
    const char c = text[position];
    if (c == '\n') break;
    if (c == ' ' || c == '\t' || c == '\r') {
      ++position;
    } else if (text.compare(position, 2, "//") == 0) {
      position = static_cast<uint32_t>(std::min(text.find('\n', position), text.size()));
    } else if (text.compare(position, 2, "/*") == 0) {
      const size_t close = text.find("*/", position + 2);
      if (close == std::string::npos || text.find('\n', position) < close) return offset;
      position = static_cast<uint32_t>(close + 2);
    } else {
      return offset;  // code follows on the line
    }
  }
  while (position > offset && (text[position - 1] == ' ' || text[position - 1] == '\t' || text[position - 1] == '\r'))
    --position;
  return position;
}

std::vector<SourceSpan> own_gaps(const std::string& text, SourceSpan region, const std::vector<SourceSpan>& cores) {
  std::vector<SourceSpan> slices;
  uint32_t begin = region.begin;
  for (const SourceSpan& core : cores) {
    uint32_t end = core.end;
    const uint32_t next = next_code(text, end);
    if (next < region.end && (text[next] == ';' || text[next] == ',')) end = next + 1;
    end = std::min(after_line_comment(text, end), region.end);
    slices.push_back({region.file, begin, end});
    begin = end;
  }
  slices.push_back({region.file, begin, region.end});
  return slices;
}

Tokens::Tokens(const std::string& text) : text_(text) {
  for (const RawToken& token : raw_tokens(text, 0, static_cast<uint32_t>(text.size())))
    if (token.kind != RawToken::Kind::comment) tokens_.push_back(token);
  partner_.assign(size(), size());
  std::vector<size_t> open;
  for (size_t at = 0; at < size(); ++at) {
    if (opens(at)) open.push_back(at);
    if (!closes(at) || open.empty()) continue;
    partner_[open.back()] = at;
    partner_[at] = open.back();
    open.pop_back();
  }
}

size_t Tokens::first_from(uint32_t offset) const {
  return static_cast<size_t>(std::ranges::lower_bound(tokens_, offset, {}, &RawToken::begin) - tokens_.begin());
}

bool Tokens::reads(size_t at, Words words) const {
  return std::ranges::all_of(words, [&](std::string_view one) { return word(at++) == one; });
}

size_t Tokens::find(std::string_view wanted, size_t at, size_t end) const {
  for (; at < end; ++at) {
    if (word(at) == wanted) return at;
    if (opens(at)) at = closing(at);
  }
  return end;
}

}  // namespace modgen
