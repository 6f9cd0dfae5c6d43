// The data formats, in one table. A format is a file of this folder that defines its row, and the row's name in
// data_formats().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/dataset.h"
#include "runtime/data/files.h"

namespace modular {

enum class Split { training, validation };

/// Describes the data of one split to the format that opens it.
struct DatasetRequest {
  const ModelConfig& model;
  const DataOptions& options;
  std::vector<DataFile> files{};        // none only for make_blank()
  std::vector<DataFile> other_files{};  // of the other split
  Split split = Split::training;
  int64_t seq_len = 0;                 // length of the samples that are cut out of texts
  int64_t seed = 0;                    // decides what is masked
  std::filesystem::path checkpoint{};  // weights that the model starts from; empty for none
};

/// Source of the names of a classifier's labels.
enum class LabelNames { none, folders, labels_json };

struct DataFormat {
  std::string_view name;  // value of data.format

  bool holds_samples = false;   // rather than texts, which are cut into samples of train.seq_len tokens
  bool has_rows = false;        // samples are rows of tensors, with their length in attention_mask, if any
  bool has_row_groups = false;  // files consist of row groups, which partitions read
  bool ids_are_bytes = false;   // any file is text, whose ids are its bytes
  LabelNames label_names = LabelNames::none;

  /// Locates the ids in a file. Throws DataError if the file is not of this format, or is cut off. Null if that shows
  /// only when the file is opened.
  DataFile (*inspect)(const std::filesystem::path& path) = nullptr;
  /// For formats of several files, the file that holds the ids, given the path of any of them or their common name.
  std::filesystem::path (*file_of_ids)(const std::filesystem::path& path) = nullptr;
  /// Whether a file of a folder belongs to the data, by its name; used only if data.suffixes is empty. Null: every file
  /// does.
  bool (*is_data)(const std::filesystem::path& path) = nullptr;
  /// Whether the labels in a file are floating-point numbers, from which the problem type of a classifier is inferred;
  /// null: it is not.
  bool (*has_real_labels)(const DataFile& file) = nullptr;

  /// Opens the files. Throws ConfigError, DataError or std::runtime_error if the model cannot train on them, as far as
  /// names and headers show; Dataset::validate() checks the values.
  std::unique_ptr<Dataset> (*open)(const DatasetRequest& request) = nullptr;
  /// A batch of `samples` samples in the shapes of the run's batches, made without files; null if the files determine
  /// the shapes.
  Batch (*make_blank)(const DatasetRequest& request, int64_t samples) = nullptr;
  /// Size of a dataset, e.g. "900 examples"; of an empty split if null.
  std::string (*describe)(const Dataset* dataset) = nullptr;
};

// token_formats.h describes the formats of texts.
extern const DataFormat kBytesFormat, kTokensFormat, kNanoGptFormat, kLlmCFormat, kMegatronFormat;
extern const DataFormat kExamplesFormat;  // safetensors files whose rows are examples (examples.h)
extern const DataFormat kParquetFormat;   // Parquet files of such rows
extern const DataFormat kImagesFormat;    // JPEG and PNG files, in a folder for each class

/// All formats, in the order in which messages list them.
std::span<const DataFormat* const> data_formats();

/// The format of that name; null if there is none.
const DataFormat* find_data_format(std::string_view name);

/// Whether there is a format of that name and it has that property.
bool has_property(std::string_view name, bool DataFormat::* property);

/// Returns an error message for an unknown data.format, or an empty string.
std::string unknown_data_format(std::string_view name);

}  // namespace modular
