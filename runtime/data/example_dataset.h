// Rows of example files as samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/data_formats.h"
#include "runtime/data/examples.h"

namespace modular {

/// One past the last position that counts.
struct UnpaddedLength {
  int64_t input = 0;   // input_ids and tensors of the same length
  int64_t target = 0;  // decoder labels and tensors of the same length; 0 without a decoder
};

/// Length of each row of all files, in order. A position counts if attention_mask does not mark it as padding, or if it
/// has a target. Reads masks and labels of all rows. Empty if the files have no attention_mask.
std::vector<UnpaddedLength> row_lengths(const std::vector<std::filesystem::path>& files, bool has_decoder);

/// `batch` cut to `length` positions, rounded up to a multiple of 8.
Batch cut_to(Batch batch, const UnpaddedLength& length, bool has_decoder);

/// Size of a dataset whose samples are rows (DataFormat::describe).
std::string describe_rows(const Dataset* dataset);

class ExampleDataset final : public Dataset {
 public:
  ExampleDataset(const std::vector<DataFile>& files, const ModelConfig& model);

  /// Reads the lengths of all rows for cut() and length(). `trims`: cut() trims to them. Throws DataError if the files
  /// do not have lengths.
  void measure(bool trims);

  int64_t count() const override { return examples_.size(); }
  int64_t tokens() const override;
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override;
  void validate() const override;
  const Examples* examples() const override { return &examples_; }

 private:
  std::vector<std::filesystem::path> paths_;
  Examples examples_;
  bool has_decoder_, trims_ = false;
  std::vector<UnpaddedLength> lengths_;  // of all rows, if measured
};

}  // namespace modular
