// Checks before a run starts that all ids of token files are in the model's vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/files.h"

namespace modular {

/// Bytes that check_tokens() reads: less than a second's work if the files are in the page cache.
inline constexpr int64_t kCheckedTokenBytes = int64_t{1} << 30;

/// Throws DataError naming the file if an id is not below `vocab_size`. Files whose id type cannot exceed it are not
/// read. If the files have more than `most_bytes`, only blocks that are spread evenly over all files are read; an id
/// outside these blocks ends the run when it is read (TokenSamples).
void check_tokens(const std::vector<DataFile>& files, int64_t vocab_size, int64_t most_bytes = kCheckedTokenBytes);

}  // namespace modular
