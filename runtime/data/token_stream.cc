#include "runtime/data/token_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>

namespace modular {

namespace {

struct Descriptor {
  explicit Descriptor(const std::filesystem::path& path) : value(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
  int value;
};

template <class Id>
void widen(const std::vector<char>& bytes, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, bytes.data() + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<int64_t>(id);
  }
}

void read_file(const DataFile& file, int64_t begin, std::span<int64_t> out) {
  const Descriptor descriptor(file.path);
  struct stat status{};
  if (descriptor.value < 0 || fstat(descriptor.value, &status) != 0)
    throw DataError(file.path.string() + ": cannot be read: " + std::strerror(errno));
  if (status.st_size != file.bytes)
    throw DataError(file.path.string() + ": had " + std::to_string(file.bytes) + " bytes when the run began and has " +
                    std::to_string(status.st_size) + " now: restore the file and resume");

  std::vector<char> bytes(out.size() * static_cast<size_t>(file.token_bytes));
  for (size_t done = 0; done < bytes.size();) {
    const auto count = pread(descriptor.value, bytes.data() + done, bytes.size() - done,
                             file.header + begin * file.token_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw DataError(file.path.string() +
                      ": cannot be read: " + (count < 0 ? std::strerror(errno) : "it ended early"));
    done += static_cast<size_t>(count);
  }
  if (file.token_bytes == 1) return widen<uint8_t>(bytes, out);
  if (file.token_bytes == 2) return widen<uint16_t>(bytes, out);
  widen<uint32_t>(bytes, out);
}

}  // namespace

TokenStream::TokenStream(std::vector<DataFile> files) : files_(std::move(files)), begin_{0} {
  for (const auto& file : files_) begin_.push_back(begin_.back() + file.tokens());
}

void TokenStream::read(int64_t begin, std::span<int64_t> out) const {
  assert(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size());
  auto index = static_cast<size_t>(std::ranges::upper_bound(begin_, begin) - begin_.begin()) - 1;
  while (!out.empty()) {
    const auto count = std::min<size_t>(out.size(), static_cast<size_t>(begin_[index + 1] - begin));
    read_file(files_[index], begin - begin_[index], out.first(count));
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
    ++index;
  }
}

}  // namespace modular
