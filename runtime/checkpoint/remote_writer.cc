#include "runtime/checkpoint/remote_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Ranks take turns, so the last one waits until all others have transferred their part of a model. The connection
/// detects a rank that is gone, and the training steps detect one that hangs.
constexpr auto kTurnTimeout = std::chrono::hours(24);

/// Not the functions of collectives.h: they count messages and report what this rank waits for, which only the main
/// thread may do.
template <class Start>
void transfer(const ProcessGroup& group, int64_t rank, const at::Tensor& values, Start&& start) {
  if (values.numel() == 0) return;
  try {
    std::vector<at::Tensor> tensors = {values.detach()};
    start(tensors)->wait();
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    throw CollectiveError(fmt::format("the transfer of a checkpoint's parts between ranks {} and {} failed: {}",
                                      group->getRank(), rank,
                                      torch_error ? torch_error->what_without_backtrace() : error.what()));
  }
}

at::Tensor as_bytes(std::string& text) {
  return at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte);
}

}  // namespace

ProcessGroup message_group(Mesh& mesh) { return mesh.host_group("checkpoints", kTurnTimeout); }

void send_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values) {
  transfer(group, rank, values, [&](auto& tensors) { return group->send(tensors, static_cast<int>(rank), 0); });
}

void receive_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values) {
  transfer(group, rank, values, [&](auto& tensors) { return group->recv(tensors, static_cast<int>(rank), 0); });
}

void send_number(const ProcessGroup& group, int64_t rank, int64_t number) {
  send_values(group, rank, at::full({1}, number, at::kLong));
}

int64_t receive_number(const ProcessGroup& group, int64_t rank) {
  const at::Tensor number = at::zeros({1}, at::kLong);
  receive_values(group, rank, number);
  return number.item<int64_t>();
}

void send_text(const ProcessGroup& group, int64_t rank, std::string text) {
  send_number(group, rank, static_cast<int64_t>(text.size()));
  send_values(group, rank, as_bytes(text));
}

std::string receive_text(const ProcessGroup& group, int64_t rank) {
  std::string text(static_cast<size_t>(receive_number(group, rank)), '\0');
  receive_values(group, rank, as_bytes(text));
  return text;
}

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

namespace {

constexpr int64_t kSentBytes = int64_t{64} << 20;

// Before each piece of a file, and once when all files are stored, rank 0 sends whether the sender should continue. The
// sender replies with the size of the file, then before each piece with the size of the piece, or with kNothing if it
// failed. So a failure on either side reaches the other side where it listens.
constexpr int64_t kStop = 0, kContinue = 1;
constexpr int64_t kNothing = -1;

int64_t next_size(const ProcessGroup& group, int64_t rank) {
  send_number(group, rank, kContinue);
  const int64_t size = receive_number(group, rank);
  if (size < 0) throw CollectiveError(fmt::format("rank {} could not send its part of a checkpoint", rank));
  return size;
}

void receive_file(const ProcessGroup& group, int64_t rank, const fs::path& path) {
  const int64_t size = next_size(group, rank);
  const auto file = create_file(path);
  file->reserve(static_cast<uint64_t>(size));
  const at::Tensor buffer = at::empty({std::min(size, kSentBytes)}, at::kByte);
  for (int64_t position = 0; position < size;) {
    const at::Tensor piece = buffer.narrow(0, 0, next_size(group, rank));
    receive_values(group, rank, piece);
    file->write(static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes(), static_cast<uint64_t>(position));
    position += piece.numel();
  }
  file->close();
}

void await_rank0(const ProcessGroup& group) {
  if (receive_number(group, 0) != kContinue) throw CollectiveError("another rank failed in writing a checkpoint");
}

/// A file whose bytes are collected into pieces, which are sent to rank 0.
class SentFile : public FileSink {
 public:
  explicit SentFile(ProcessGroup group) : group_(std::move(group)) {}

  void reserve(uint64_t size) override {
    size_ = static_cast<int64_t>(size);
    piece_ = at::empty({std::min(size_, kSentBytes)}, at::kByte);
    await_rank0(group_);
    send_number(group_, 0, size_);
  }

  void write(const std::byte* bytes, uint64_t size, uint64_t position) override {
    TORCH_INTERNAL_ASSERT(static_cast<int64_t>(position) == sent_ + held_, "a file is sent in order");
    for (auto left = static_cast<int64_t>(size); left > 0;) {
      const int64_t count = std::min(left, piece_.numel() - held_);
      std::memcpy(static_cast<std::byte*>(piece_.data_ptr()) + held_, bytes, static_cast<size_t>(count));
      bytes += count, left -= count, held_ += count;
      if (held_ == piece_.numel() || sent_ + held_ == size_) send_piece();
    }
  }

  void close() override { TORCH_INTERNAL_ASSERT(sent_ == size_, "a file is sent completely"); }

 private:
  void send_piece() {
    await_rank0(group_);
    send_number(group_, 0, held_);
    send_values(group_, 0, piece_.narrow(0, 0, held_));
    sent_ += std::exchange(held_, 0);
  }

  const ProcessGroup group_;
  int64_t size_ = 0, sent_ = 0, held_ = 0;
  at::Tensor piece_;
};

}  // namespace

void receive_files(const ProcessGroup& group, const std::function<void()>& own,
                   const std::function<fs::path(int64_t)>& path_to) {
  try {
    own();
    for (int64_t rank = 1; rank < group->getSize(); ++rank) receive_file(group, rank, path_to(rank));
  } catch (const std::exception&) {
    for (int64_t rank = 1; rank < group->getSize(); ++rank) {
      try {
        send_number(group, rank, kStop);
      } catch (const CollectiveError&) {
        // The rank is gone, which may be the cause.
      }
    }
    throw;
  }
  for (int64_t rank = 1; rank < group->getSize(); ++rank) send_number(group, rank, kContinue);
}

void send_file(const ProcessGroup& group, const std::function<void(std::unique_ptr<FileSink>)>& write) {
  try {
    write(std::make_unique<SentFile>(group));
  } catch (const CollectiveError&) {
    throw;  // reported by rank 0, which no longer listens
  } catch (const std::exception&) {
    await_rank0(group);
    send_number(group, 0, kNothing);
    receive_number(group, 0);  // tells all ranks to stop
    throw;
  }
  await_rank0(group);
}

}  // namespace modular
