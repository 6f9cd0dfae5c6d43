// Examples for a model to learn from or to be run on, in safetensors files: the tensors of a Batch under their names.
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

struct Task;

/// Where an entry looks along whole sessions, and a batch has no attention_mask: one that tells items from padding, id
/// 0.
void add_item_mask(const Task& task, Batch& batch);

/// The labels that follow from what a batch holds, of tasks that have such: the next token or item, or of sessions the
/// items themselves; of samples of several texts that each of them counts.
at::Tensor made_labels(const Task& task, const Batch& batch, int64_t texts);

/// Whether a task's samples are sessions, of items with their features.
bool is_of_sessions(const Task& task);

/// The problem of a classifier of rows: transformers' problem_type; where none is given, "regression" of one label, and
/// "multi_label_classification" of several whose data are floating-point numbers, as transformers infers it. Empty for
/// classes, and for entries that are not such classifiers.
std::string find_problem(const ModelConfig& model, bool real_labels = false);

/// The samples of a batch: its rows, or fewer where each has several texts, labels set.
int64_t count_samples(const Batch& batch);

/// All examples of `file`, rows first, checked against what the model's task and config ask for: shapes that fit one
/// another, ids below the sizes of their tables. Labels are numbered as the model does. Throws std::runtime_error in
/// one sentence where they do not.
Batch read_examples(const SafetensorsFile& file, const ModelConfig& model);

/// Samples [first, first + count) of a batch: of each tensor, and of images in texts those whose placeholders
/// are in these rows. Throws std::runtime_error where a row begins in the middle of an image.
Batch take_rows(Batch batch, const ModelConfig& model, int64_t first, int64_t count);

/// The rows of many files, read one by one. Numbers are those of a batch's tensors; files may hold narrower types.
class Examples {
 public:
  enum class Labels { needed, not_needed };
  /// Opens the files and checks their tensors' names, types and shapes, which apart from the rows are the same in all
  /// files. Throws std::runtime_error where a file is cut off, its tensors are not what the model's
  /// task reads, or labels are missing that are needed and that the task does not make itself.
  Examples(const std::vector<std::filesystem::path>& paths, const ModelConfig& model, Labels labels = Labels::needed);

  /// Samples of all files: a row each, with all of its texts.
  int64_t size() const { return begin_.back(); }

  /// The size of each row's tensor of that name, without the rows; empty where the files have none.
  std::vector<int64_t> row_shape(std::string_view name) const;

  /// Texts of a sample; 1 where there is no other number.
  int64_t texts() const;

  /// Whether the files have labels, and whether these are floating-point numbers.
  bool has_labels() const { return !files_.empty() && files_.front().tensors().contains("labels"); }
  bool labels_are_numbers() const;

  /// These samples, labels set: where the files have none, the next tokens or items that are not padding, or that each
  /// sample counts. Throws std::runtime_error where an id is not below the size of its table.
  Batch read(std::span<const int64_t> rows) const;

  /// Throws where a label of any file, but kIgnoredTarget, is no finite number from `low` to `high`, or with `whole` no
  /// whole one.
  void check_labels(double low, double high, bool whole) const;

  /// Throws where any id of any file is not below the size of its table. Reads all files but for their real numbers.
  void check_ids() const;

 private:
  size_t get_file(int64_t row) const;

  ModelConfig model_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::optional<LabelMap>> label_maps_;  // of each file
  std::vector<int64_t> begin_ = {0};                 // where each file's rows begin, and last the number of all
};

}  // namespace modular
