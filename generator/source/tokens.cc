#include "generator/source/tokens.h"

#include <algorithm>

namespace modgen {

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
