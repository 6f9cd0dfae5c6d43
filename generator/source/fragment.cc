#include "generator/source/fragment.h"

#include <algorithm>

namespace modgen {

void Fragment::add(std::string text, SourceSpan from) {
  if (text.empty()) return;
  size_ += text.size();
  pieces_.push_back({std::move(text), from, false, {}});
}

void Fragment::add_verbatim(std::string_view text, SourceSpan from) {
  if (text.empty()) return;
  size_ += text.size();
  pieces_.push_back({std::string(text), from, true, {}});
}

void Fragment::append(const Fragment& other) {
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
  size_ += other.size_;
}

void Fragment::set_cause(SourceSpan cause) {
  for (Piece& piece : pieces_)
    if (piece.cause.file == kNoFile) piece.cause = cause;
}

void Fragment::set_part(uint32_t number) {
  for (Piece& piece : pieces_) piece.part = number;
}

Fragment Fragment::part(uint32_t number) const {
  Fragment result;
  for (const Piece& piece : pieces_) {
    if (piece.part != number) continue;
    result.size_ += piece.text.size();
    result.pieces_.push_back(piece);
  }
  return result;
}

Fragment Fragment::with_parts_replaced(const std::set<uint32_t>& numbers, const std::string& by) const {
  Fragment result;
  uint32_t before = 0;
  for (const Piece& piece : pieces_) {
    const bool begins = piece.part != std::exchange(before, piece.part);
    if (!numbers.contains(piece.part)) {
      result.size_ += piece.text.size();
      result.pieces_.push_back(piece);
    } else if (begins) {
      result.add(by);
    }
  }
  return result;
}

size_t Fragment::piece_at(size_t offset) const {
  if (begins_.size() != pieces_.size()) {
    begins_.clear();
    size_t begin = 0;
    for (const Piece& piece : pieces_) {
      begins_.push_back(begin);
      begin += piece.text.size();
    }
  }
  return static_cast<size_t>(std::ranges::upper_bound(begins_, offset) - begins_.begin()) - 1;
}

SourceSpan Fragment::cause(size_t offset) const {
  return offset < size_ ? pieces_[piece_at(offset)].cause : SourceSpan{};
}

std::string Fragment::text() const {
  std::string result;
  result.reserve(size_);
  for (const Piece& piece : pieces_) result += piece.text;
  return result;
}

SourceSpan Fragment::origin(size_t offset) const {
  if (pieces_.empty()) return {};
  size_t at = piece_at(offset);
  while (at > 0 && pieces_[at].from.file == kNoFile) --at;
  const Piece& piece = pieces_[at];
  if (piece.from.file == kNoFile) return {};
  SourceSpan from = piece.from;
  if (piece.verbatim) {
    const auto inside = static_cast<uint32_t>(std::min(offset - begins_[at], piece.text.size()));
    from.begin = std::min(from.begin + inside, from.end);
  }
  return from;
}

Fragment Fragment::trimmed() const {
  constexpr std::string_view kSpace = " \t\r\n";
  Fragment result;
  size_t first = 0, last = pieces_.size();
  while (first < last && pieces_[first].text.find_first_not_of(kSpace) == std::string::npos) ++first;
  while (last > first && pieces_[last - 1].text.find_first_not_of(kSpace) == std::string::npos) --last;
  for (size_t i = first; i < last; ++i) {
    Piece piece = pieces_[i];
    if (i + 1 == last) piece.text.erase(piece.text.find_last_not_of(kSpace) + 1);
    if (i == first) {
      const size_t skipped = piece.text.find_first_not_of(kSpace);
      piece.text.erase(0, skipped);
      if (piece.verbatim) piece.from.begin += static_cast<uint32_t>(skipped);
    }
    result.size_ += piece.text.size();
    result.pieces_.push_back(std::move(piece));
  }
  return result;
}

}  // namespace modgen
