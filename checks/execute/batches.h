// Batches that an entry is executed with, derived from its task and config.
#pragma once

#include "checks/execute/contract_in_double.h"
#include "checks/execute/simulated_ranks.h"

namespace modular::execute {

/// Inputs of a batch in addition to ids and labels.
struct BatchOptions {
  bool is_padded = false;     // rows of different lengths, with an attention_mask
  bool has_segments = false;  // token_type_ids
};

/// Whether the entry's batches have tokens, which can be padded.
bool reads_tokens(const Entry& entry);

/// A batch of a few rows for a finished config. Throws std::runtime_error if the config lacks what the task needs.
Batch make_batch(const Entry& entry, const AnyConfig& config, const BatchOptions& options);

/// Part `index` of `count` equal parts of a batch's samples.
Batch find_rows(const Batch& batch, int64_t index, int64_t count);

/// The positions that a context-parallel rank has of the batch of an entry.
Batch find_positions(const Batch& batch, const Entry& entry, const Grid& grid, int64_t cp_rank);

/// The tokens [first, first + size) of each row, for a forward that continues from a cache.
Batch find_tokens(const Batch& batch, int64_t first, int64_t size);

}  // namespace modular::execute
