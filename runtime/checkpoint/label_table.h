// Names of a classifier's labels: id2label and label2id of a model's config.json, and labels.json of prepared data.
// Labels are matched by name; their numbers may differ between the files.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// In a folder that `modrun prepare` wrote: the number of each named label of its examples, as JSON.
inline constexpr const char* kLabelNames = "labels.json";

/// Reads it. Throws ConfigError if it holds anything but names with numbers.
std::map<std::string, int64_t> read_labels(const std::filesystem::path& file);

/// Labels of a model.
class LabelTable {
 public:
  LabelTable() = default;
  /// `config`: the keys of config.json; malformed ones count as missing. Labels without a name are called LABEL_0,
  /// LABEL_1, …, as in transformers.
  LabelTable(const nlohmann::json& config, int64_t count);
  /// Returns an empty table if the model is not a classifier. The names of config.json count only if each label has
  /// one: names for a head of another size do not apply.
  static LabelTable of(const ModelConfig& model);

  int64_t count() const { return static_cast<int64_t>(names_.size()); }
  /// Whether any label has a name of its own.
  bool has_names() const;
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return numbers_.contains(name); }
  /// The number of a label. Throws ConfigError if id2label and label2id disagree about it.
  std::optional<int64_t> find(const std::string& name) const;
  /// The same; if no label has this name, the number of the only label whose name differs only in case. Throws
  /// ConfigError if a label's name is the same text in another form of Unicode.
  std::optional<int64_t> find_in_any_case(const std::string& name) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::set<int64_t>> numbers_;  // by id2label and by label2id
};

/// Numbers for the label names of a data set.
struct NumberedLabels {
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> others;     // names that the model does not have
  std::vector<std::string> respelled;  // names that the model has in another case
};

/// The model's numbers for its labels, and for others the lowest free numbers, in sorted order. If there are more names
/// than the model has labels, which takes a new head, all are numbered in sorted order. LABEL_0, LABEL_1, … always mean
/// their numbers, and so do "0", "1", … if the model has a label of each number and no names. Throws ConfigError if two
/// names are the same text in two forms of Unicode, or one is a name of the model in another form.
NumberedLabels number_labels(const std::set<std::string>& names, const LabelTable& model);

/// A line for the log if `labels` differ from the labels of `folder`, whose head is `model`'s; empty otherwise.
std::string labels_note(const NumberedLabels& labels, const LabelTable& model, const std::string& folder);

/// Maps the label numbers of a file to the model's.
class LabelMap {
 public:
  /// Reads labels.json next to `file`. nullopt if there is none, if its numbers equal the model's, or if the model's
  /// labels have no names.
  static std::optional<LabelMap> of(const std::filesystem::path& file, const ModelConfig& model);

  /// Number of labels in the file.
  int64_t size() const { return numbers_.size(0); }
  /// - labels [...] int64, or with a number for each label [..., size] float32
  /// - returns the same for the model's labels. Throws std::runtime_error if a label is not one of the model's.
  at::Tensor apply(const at::Tensor& labels) const;

 private:
  std::filesystem::path file_;
  std::vector<std::string> names_;  // of the file's labels
  at::Tensor numbers_;              // [size] int64, the model's numbers; -1 for labels that the model does not have
  LabelTable model_;
};

}  // namespace modular
