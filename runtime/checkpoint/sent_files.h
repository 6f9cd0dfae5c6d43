// Files that ranks without the run's folder send to rank 0, which writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "runtime/checkpoint/file_sink.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Rank 0's part: runs `own`, then receives the other ranks' files, one rank after the other, in pieces of at most 64
/// MiB, and writes each as `path_to(rank)`. If this or `own` fails, all ranks throw. `group` is a message_group().
void receive_files(const ProcessGroup& group, const std::function<void()>& own,
                   const std::function<std::filesystem::path(int64_t rank)>& path_to);

/// Another rank's part: everything that `write` writes into the sink, in file order, becomes this rank's file. Returns
/// when rank 0 has stored all ranks' files. Throws CollectiveError if rank 0 could not.
void send_file(const ProcessGroup& group, const std::function<void(std::unique_ptr<FileSink>)>& write);

}  // namespace modular
