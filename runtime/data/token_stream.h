// All tokens of a list of files, concatenated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/files.h"

namespace modular {

class OpenFiles;

class TokenStream {
 public:
  explicit TokenStream(std::vector<DataFile> files);

  /// Number of tokens.
  int64_t size() const { return begin_.back(); }
  const std::vector<DataFile>& files() const { return files_; }

  /// The file that holds a token.
  const DataFile& get_file(int64_t token) const;

  /// Positions, relative to `begin`, between `begin` and `end` (exclusive) at which a file begins; ascending.
  std::vector<int64_t> file_begins(int64_t begin, int64_t end) const;

  /// Reads tokens [begin, begin + out.size()). Throws DataError if a file has changed since it was found, or cannot be
  /// read. Files stay open, up to a few hundred. Thread-safe.
  void read(int64_t begin, std::span<int64_t> out) const;

 private:
  std::vector<DataFile> files_;
  std::vector<int64_t> begin_;  // first token of each file, and last the total size
  std::shared_ptr<OpenFiles> open_;
};

}  // namespace modular
