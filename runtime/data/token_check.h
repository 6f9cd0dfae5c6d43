// Whether all ids of token files are a model's, looked at before a run starts.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/files.h"

namespace modular {

/// Bytes that check_tokens() reads: less than a second's work where the files are in the page cache.
inline constexpr int64_t kCheckedTokenBytes = int64_t{1} << 30;

/// Throws DataError that names the file where an id is not one of `vocab_size`. Files whose ids are too narrow for that
/// are not read. Of more than `most_bytes` blocks are read that are evenly spread over all files: an id that is not in
/// these ends the run when it is met (TokenSamples).
void check_tokens(const std::vector<DataFile>& files, int64_t vocab_size, int64_t most_bytes = kCheckedTokenBytes);

}  // namespace modular
