#include "runtime/checkpoint/sent_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/checkpoint/rank_messages.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

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
