// The names of a classifier's labels: id2label and label2id of a model's config.json, and labels.json of prepared data.
// What names agree on is a label; its number may be another in each.
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

/// In a folder that `modrun prepare` wrote: the number of each label of its examples that has a name, as JSON.
inline constexpr const char* kLabelNames = "labels.json";

/// Reads it. Throws ConfigError where it holds anything but names with numbers.
std::map<std::string, int64_t> read_labels(const std::filesystem::path& file);

/// The labels of a model.
class LabelTable {
 public:
  LabelTable() = default;
  /// `config`: the keys of config.json, of which what is malformed counts as missing. Labels without a name are called
  /// LABEL_0, LABEL_1, …, as in transformers.
  LabelTable(const nlohmann::json& config, int64_t count);
  /// Empty where the model is not a classifier. The names of config.json count where it has one for each label: of a
  /// head of another size they say nothing.
  static LabelTable of(const ModelConfig& model);

  int64_t count() const { return static_cast<int64_t>(names_.size()); }
  /// Whether any label has a name of its own.
  bool has_names() const;
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const { return numbers_.contains(name); }
  /// The number of a label. Throws ConfigError where id2label and label2id give it two.
  std::optional<int64_t> find(const std::string& name) const;
  /// The same; where no label has this name, the number of the only one whose name differs from it in case alone.
  /// Throws ConfigError where a name is the same text in another form of Unicode.
  std::optional<int64_t> find_in_any_case(const std::string& name) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::set<int64_t>> numbers_;  // by id2label and by label2id
};

/// Numbers for the names of data.
struct NumberedLabels {
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> others;     // that the model does not have
  std::vector<std::string> respelled;  // that the model has in another case
};

/// The model's numbers for its labels; for others the lowest that are left, in sorted order. Of more names than the
/// model has labels, which takes a new head, all are numbered in sorted order; LABEL_0, LABEL_1, … always by what they
/// say, and "0", "1", … where the model has a label of each number and no names. Throws ConfigError where two names are
/// the same text in two forms of Unicode, or one is a name of the model in another form.
NumberedLabels number_labels(const std::set<std::string>& names, const LabelTable& model);

/// A line that says where `labels` are not just those of `folder`, whose head is `model`'s; empty where they are.
std::string labels_note(const NumberedLabels& labels, const LabelTable& model, const std::string& folder);

/// The numbers that labels of a file have, as the model's.
class LabelMap {
 public:
  /// By labels.json next to `file`. Nothing where there is none, or it numbers as the model does, or the model's labels
  /// have no names.
  static std::optional<LabelMap> of(const std::filesystem::path& file, const ModelConfig& model);

  /// How many labels the file has.
  int64_t size() const { return numbers_.size(0); }
  /// - labels [...] int64, or with a number for each label [..., size] float32
  /// - returns the same of the model's labels. Throws std::runtime_error where a label is not the model's.
  at::Tensor apply(const at::Tensor& labels) const;

 private:
  std::filesystem::path file_;
  std::vector<std::string> names_;  // of the file's labels
  at::Tensor numbers_;              // [size] int64, the model's; -1 where it does not have the label
  LabelTable model_;
};

}  // namespace modular
