#include "runtime/data/token_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace modular {

namespace {

struct Descriptor {
  explicit Descriptor(const std::filesystem::path& path) : value(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
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

void read_file(const DataFile& file, const Descriptor& descriptor, int64_t begin, std::span<int64_t> out) {
  struct stat status{};
  if (fstat(descriptor.value, &status) != 0)
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
  if (file.token_bytes == 4) return widen<uint32_t>(bytes, out);
  widen<int64_t>(bytes, out);
}

}  // namespace

/// Files that stay open: opening a file for each sample is slow on network file systems.
class OpenFiles {
 public:
  std::shared_ptr<const Descriptor> get(size_t index, const DataFile& file) {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(index); found != files_.end()) return found->second;
    if (files_.size() >= kMost) files_.clear();
    auto opened = std::make_shared<const Descriptor>(file.path);
    if (opened->value < 0) throw DataError(file.path.string() + ": cannot be read: " + std::strerror(errno));
    return files_[index] = std::move(opened);
  }

 private:
  static constexpr size_t kMost = 256;
  std::mutex mutex_;
  std::unordered_map<size_t, std::shared_ptr<const Descriptor>> files_;
};

TokenStream::TokenStream(std::vector<DataFile> files)
    : files_(std::move(files)), begin_{0}, open_(std::make_shared<OpenFiles>()) {
  for (const auto& file : files_) begin_.push_back(begin_.back() + file.tokens());
}

std::vector<int64_t> TokenStream::file_begins(int64_t begin, int64_t end) const {
  std::vector<int64_t> begins;
  for (auto file = std::ranges::upper_bound(begin_, begin); file != begin_.end() && *file < end; ++file)
    begins.push_back(*file - begin);
  return begins;
}

const DataFile& TokenStream::get_file(int64_t token) const {
  return files_[static_cast<size_t>(std::ranges::upper_bound(begin_, token) - begin_.begin()) - 1];
}

void TokenStream::read(int64_t begin, std::span<int64_t> out) const {
  assert(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size());
  auto index = static_cast<size_t>(std::ranges::upper_bound(begin_, begin) - begin_.begin()) - 1;
  while (!out.empty()) {
    const auto count = std::min<size_t>(out.size(), static_cast<size_t>(begin_[index + 1] - begin));
    read_file(files_[index], *open_->get(index, files_[index]), begin - begin_[index], out.first(count));
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
    ++index;
  }
}

}  // namespace modular
