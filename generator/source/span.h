// Locations in source text, and changes to it.
#pragma once

#include <cstdint>
#include <string>

namespace modgen {

/// Bytes [begin, end) of a source file, which is an index into the run's table of files.
struct SourceSpan {
  uint32_t file = 0;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool empty() const { return begin == end; }
  bool contains(const SourceSpan& other) const {
    return file == other.file && begin <= other.begin && other.end <= end;
  }
  bool operator==(const SourceSpan&) const = default;
};

/// A change to source text: replaces `where` by `text` (an insertion if `where` is empty). Edits of one slice do not
/// overlap; insertions at one offset apply in the order in which they were added.
struct Edit {
  SourceSpan where;
  std::string text;
};

}  // namespace modgen
