#include "runtime/files/line_reader.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace modular {

bool LineReader::next(std::string& line) {
  constexpr size_t kReadBytes = 1 << 16;
  for (size_t searched = begin_;;) {
    if (const size_t end = buffer_.find('\n', searched); end != std::string::npos) {
      line.assign(buffer_, begin_, end - begin_);
      begin_ = end + 1;
      return true;
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    if (is_at_end_) break;
    if (searched > static_cast<size_t>(kMostLineBytes))
      throw std::runtime_error(
          fmt::format("{} has a line of more than {} bytes: restore the file", path_.string(), kMostLineBytes));
    buffer_.resize(searched + kReadBytes);
    ssize_t count = -1;
    do count = ::read(file_.get(), buffer_.data() + searched, kReadBytes);
    while (count < 0 && errno == EINTR);
    if (count < 0) throw std::runtime_error(fmt::format("{} cannot be read: {}", path_.string(), std::strerror(errno)));
    buffer_.resize(searched + static_cast<size_t>(count));
    is_at_end_ = count == 0;
  }
  if (buffer_.empty()) return false;
  line = std::exchange(buffer_, {});
  return is_cut_off_ = true;
}

}  // namespace modular
