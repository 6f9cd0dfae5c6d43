// Files that ranks without the run's folder send to rank 0, which writes them.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/mesh/mesh.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {

// Messages between rank 0, which has a run's folder, and another rank, which does not. They are ordered between two
// ranks. A background thread may send them: they are point-to-point messages on a process group of their own.

/// Process group of these messages. The first call is collective over the world.
ProcessGroup message_group(Mesh& mesh);

// Each returns when the other rank has the message, and throws CollectiveError if that rank is gone. Tensors are
// contiguous and in host memory; tensors without values are not sent.

void send_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);
void receive_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);

void send_number(const ProcessGroup& group, int64_t rank, int64_t number);
int64_t receive_number(const ProcessGroup& group, int64_t rank);

void send_text(const ProcessGroup& group, int64_t rank, std::string text);
std::string receive_text(const ProcessGroup& group, int64_t rank);

// Destination of a file's bytes: a local file, or the rank that writes it.

/// One file. All members throw std::runtime_error if it cannot be written.
class FileSink {
 public:
  virtual ~FileSink() = default;
  /// Announces the size of a new file, before anything is written.
  virtual void reserve(uint64_t size) = 0;
  /// Writes `size` bytes at `position`.
  virtual void write(const std::byte* bytes, uint64_t size, uint64_t position) = 0;
  /// Makes the file durable; called after the last write.
  virtual void close() = 0;
};

/// A new local file, which replaces an older one.
std::unique_ptr<FileSink> create_file(const std::filesystem::path& path);

/// An existing local file.
std::unique_ptr<FileSink> open_file(const std::filesystem::path& path);

/// Rank 0's part: runs `own`, then receives the other ranks' files, one rank after the other, in pieces of at most 64
/// MiB, and writes each as `path_to(rank)`. If this or `own` fails, all ranks throw. `group` is a message_group().
void receive_files(const ProcessGroup& group, const std::function<void()>& own,
                   const std::function<std::filesystem::path(int64_t rank)>& path_to);

/// Another rank's part: everything that `write` writes into the sink, in file order, becomes this rank's file. Returns
/// when rank 0 has stored all ranks' files. Throws CollectiveError if rank 0 could not.
void send_file(const ProcessGroup& group, const std::function<void(std::unique_ptr<FileSink>)>& write);

}  // namespace modular
