// Text that records the origin of each of its parts, so that messages about flattened code can point to the spec.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// The file index of text that does not come from a file.
inline constexpr uint32_t kNoFile = 0;

class Fragment {
 public:
  Fragment() = default;
  /*implicit*/ Fragment(std::string text) { add(std::move(text)); }
  /*implicit*/ Fragment(const char* text) { add(std::string(text)); }

  /// Appends text that replaces `from`; without `from`, its origin is that of the text before it.
  void add(std::string text, SourceSpan from = {});
  /// Appends `text`, which equals the bytes of `from`.
  void add_verbatim(std::string_view text, SourceSpan from);
  void append(const Fragment& other);

  /// Sets the code that caused this text; parts that already have a cause keep it.
  void set_cause(SourceSpan cause);

  /// Makes this text part `number`, above 0, of the text that it is appended to.
  void set_part(uint32_t number);
  Fragment part(uint32_t number) const;
  /// This text with `by` in place of each of the parts `numbers`.
  Fragment with_parts_replaced(const std::set<uint32_t>& numbers, const std::string& by) const;

  std::string text() const;
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  /// The origin of the byte at `offset`; file kNoFile if nothing up to there came from a file.
  SourceSpan origin(size_t offset) const;

  /// The code that caused the byte at `offset`; file kNoFile if unknown.
  SourceSpan cause(size_t offset) const;

  /// The text without whitespace at both ends.
  Fragment trimmed() const;

 private:
  struct Piece {
    std::string text;
    SourceSpan from;
    bool verbatim = false;
    SourceSpan cause = {};
    uint32_t part = 0;
  };
  /// Index of the piece that contains the byte at `offset`, or of the last one. There has to be a piece.
  size_t piece_at(size_t offset) const;

  std::vector<Piece> pieces_;
  size_t size_ = 0;
  mutable std::vector<size_t> begins_;  // offsets of the pieces, computed by piece_at
};

}  // namespace modgen
