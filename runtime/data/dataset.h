// The interface of a data format: samples that are read as batches.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/model/tensors.h"

namespace modular {

class Examples;
class PartitionOrder;

/// A sample of a batch.
struct SamplePosition {
  int64_t sample = 0;    // index in the data
  int64_t position = 0;  // position in the run's order, different each time that the sample is seen
};

/// The opened files of a split. Its functions may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples in one pass over the data.
  virtual int64_t count() const = 0;

  /// Number of tokens per sample; 1 if samples have none.
  virtual int64_t tokens() const = 0;

  /// Reads the samples at `positions` as a batch of `samples` samples on the CPU, labels set; the rest have no targets.
  /// Each sample has as many rows as it has texts. Throws DataError if the data is not what the model reads.
  virtual Batch read(std::span<const SamplePosition> positions, int64_t samples) const = 0;

  /// Removes padding that none of these samples needs. The samples are those of a full step, so that all ranks cut
  /// equally.
  virtual Batch cut(Batch batch, std::span<const int64_t>) const { return batch; }

  /// Length of a sample, for grouping samples of similar length; 0 if all are alike.
  virtual int64_t length(int64_t) const { return 0; }

  /// Order in which partitions read the samples; null if all are in one random order.
  virtual const PartitionOrder* partition_order() const { return nullptr; }

  /// Throws DataError, ConfigError or std::runtime_error if the model cannot read a value. Reads all examples, and of
  /// files of ids what check_tokens() reads.
  virtual void validate() const {}

  /// The rows that the samples are read from; null for formats other than safetensors files.
  virtual const Examples* examples() const { return nullptr; }
};

}  // namespace modular
