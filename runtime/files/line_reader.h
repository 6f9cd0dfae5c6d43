// Reads a file line by line, with a bound on what a line may take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/files/open_file.h"

namespace modular {

constexpr int64_t kMostLineBytes = int64_t{64} << 20;

class LineReader {
 public:
  /// Opens as open_to_read() does, and throws as that does.
  explicit LineReader(const std::filesystem::path& path, Links links = Links::none)
      : path_(path), file_(open_to_read(path, links)) {}

  /// Takes the next line without its end; false where there is none. Throws std::runtime_error where the file cannot be
  /// read, or a line has more than kMostLineBytes.
  bool next(std::string& line);

  /// Whether the file ended within the line that next() returned last.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  std::filesystem::path path_;
  OpenFile file_;
  std::string buffer_;
  size_t begin_ = 0;  // of what has not been returned
  bool is_cut_off_ = false, is_at_end_ = false;
};

}  // namespace modular
