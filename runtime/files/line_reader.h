// Reads a file line by line, with a limit on the length of a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/files/open_file.h"

namespace modular {

constexpr int64_t kMostLineBytes = int64_t{64} << 20;

class LineReader {
 public:
  /// Opens the file with open_to_read(), and throws like it.
  explicit LineReader(const std::filesystem::path& path, Links links = Links::none)
      : path_(path), file_(open_to_read(path, links)) {}

  /// Reads the next line without its newline; returns false at the end of the file. Throws std::runtime_error if the
  /// file cannot be read or a line has more than kMostLineBytes.
  bool next(std::string& line);

  /// Whether the last line that next() returned lacks its newline.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  std::filesystem::path path_;
  OpenFile file_;
  std::string buffer_;
  size_t begin_ = 0;  // start of the data that next() has not returned
  bool is_cut_off_ = false, is_at_end_ = false;
};

}  // namespace modular
