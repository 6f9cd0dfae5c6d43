// Training and inference examples in safetensors files: the tensors of a Batch under their names.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "runtime/checkpoint/label_table.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Number of samples in a batch: its rows, or fewer if each sample has several texts; for a batch with labels set.
int64_t count_samples(const Batch& batch);

/// Reads all examples of `file`, rows first, and checks them against the model's task and config: matching shapes, ids
/// below the sizes of their tables. Labels get the model's numbers. Throws std::runtime_error with a message for the
/// user on a mismatch.
Batch read_examples(const SafetensorsFile& file, const ModelConfig& model);

/// Samples [first, first + count) of a batch: rows of each tensor, and the images whose placeholders are in these rows.
/// Throws std::runtime_error if a row begins in the middle of an image.
Batch take_rows(Batch batch, const ModelConfig& model, int64_t first, int64_t count);

/// The rows of many files, read on demand. Numbers have the types of a batch's tensors; files may hold narrower types.
class Examples {
 public:
  enum class Labels { needed, not_needed };
  /// Opens the files and checks their tensors' names, types and shapes, which must agree in all files except for the
  /// number of rows. Throws std::runtime_error if a file is cut off, if its tensors are not the ones that the model's
  /// task reads, or if required labels are missing that the task cannot make itself.
  Examples(const std::vector<std::filesystem::path>& paths, const ModelConfig& model, Labels labels = Labels::needed);

  /// Number of samples in all files: one per row, with all of its texts.
  int64_t size() const { return begin_.back(); }

  /// Shape of that tensor in each row, without the row dimension; empty if the files do not have the tensor.
  std::vector<int64_t> row_shape(std::string_view name) const;

  /// Number of texts per sample; 1 if the files have no such dimension.
  int64_t texts() const;

  /// Whether the files have labels, and whether the labels are floating-point numbers.
  bool has_labels() const { return !files_.empty() && files_.front().tensors().contains("labels"); }
  bool labels_are_numbers() const;

  /// Reads these samples, labels set. If the files have no labels: the next tokens or items that are not padding, or
  /// labels that make each sample count. Throws std::runtime_error if an id is not below the size of its table.
  Batch read(std::span<const int64_t> rows) const;

  /// Throws if a label of any file, other than kIgnoredTarget, is not a finite number from `low` to `high`, or with
  /// `whole` not an integer.
  void check_labels(double low, double high, bool whole) const;

  /// Throws if an id of any file is not below the size of its table. Reads all files, except for their floating-point
  /// tensors.
  void check_ids() const;

 private:
  size_t get_file(int64_t row) const;

  ModelConfig model_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::optional<LabelMap>> label_maps_;  // one per file
  std::vector<int64_t> begin_ = {0};  // index of each file's first row, and last the total number of rows
};

}  // namespace modular
