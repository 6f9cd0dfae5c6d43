#include "runtime/checkpoint/file_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

class LocalFile : public FileSink {
 public:
  LocalFile(const fs::path& path, int flags) : path_(path), file_(open_to_write(path, flags)) {}

  void reserve(uint64_t size) override {
    // On an in-memory file system a signal interrupts it, the signal that requests this checkpoint, for example.
    do errno = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(size));
    while (errno == EINTR);
    if (errno != 0) throw_system_error(path_, "written");
  }

  void write(const std::byte* bytes, uint64_t size, uint64_t position) override {
    while (size > 0) {
      const ssize_t written = ::pwrite(file_.get(), bytes, size, static_cast<off_t>(position));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw_system_error(path_, "written");
      bytes += written;
      size -= static_cast<uint64_t>(written);
      position += static_cast<uint64_t>(written);
    }
  }

  void close() override {
    const bool stored = ::fsync(file_.get()) == 0;
    const bool closed = ::close(file_.release()) == 0;
    if (!stored || !closed) throw_system_error(path_, "written");
  }

 private:
  const fs::path path_;
  OpenFile file_;
};

}  // namespace

std::unique_ptr<FileSink> create_file(const fs::path& path) {
  return std::make_unique<LocalFile>(path, O_CREAT | O_TRUNC);
}

std::unique_ptr<FileSink> open_file(const fs::path& path) { return std::make_unique<LocalFile>(path, 0); }

}  // namespace modular
