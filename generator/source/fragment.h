// Text that remembers where each of its parts came from, so that messages about flattened code can be moved to the
// spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// The file index of text that comes from no file.
inline constexpr uint32_t kNoFile = 0;

class Fragment {
 public:
  Fragment() = default;
  /*implicit*/ Fragment(std::string text) { add(std::move(text)); }
  /*implicit*/ Fragment(const char* text) { add(std::string(text)); }

  /// Appends text that takes the place of `from`, or of what comes before it where there is no such place.
  void add(std::string text, SourceSpan from = {});
  /// Appends `text`, which is what `from` holds, byte for byte.
  void add_verbatim(std::string_view text, SourceSpan from);
  void append(const Fragment& other);

  /// Says which code asked for this text; parts that already know keep what they know.
  void set_cause(SourceSpan cause);

  std::string text() const;
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  /// The place that the byte at `offset` came from; file kNoFile where nothing before it came from a file.
  SourceSpan origin(size_t offset) const;

  /// The code that asked for the byte at `offset`; file kNoFile where it is not known.
  SourceSpan cause(size_t offset) const;

  /// Without white space at both ends.
  Fragment trimmed() const;

 private:
  struct Piece {
    std::string text;
    SourceSpan from;
    bool verbatim = false;
    SourceSpan cause = {};
  };
  std::vector<Piece> pieces_;
  size_t size_ = 0;
};

}  // namespace modgen
