// Texts as training data: files of ids, or of examples, in a folder that appears when it is complete.
//
// Its sibling <out>.partial holds the work in progress: prepare.json (sources and options), the tokenizer, and a file
// for each shard, which appears under its name when it is complete. The published folder also has
//   part-00000.tokens or part-00000.safetensors, …   one file per shard
//   prepared.manifest                                 sizes and names of these files
//   labels.json                                       the number of each label that is a name
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/label_table.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/prepare/row_plan.h"
#include "runtime/prepare/rows.h"
#include "runtime/prepare/sources.h"

namespace modular {

struct PrepareOptions {
  std::vector<std::string> sources;  // files and folders
  AskedColumns columns;
  SourceOptions reading;
  RowLength length;
  std::filesystem::path tokenizer;    // a folder with tokenizer.json or a .model file, or such a file
  std::optional<int64_t> vocabulary;  // the model's vocabulary size, if known
  LabelTable labels;                  // the model's labels, if its folder is known
  std::string labels_folder;          // that folder, if its head was trained for them
  std::optional<int64_t> num_labels;  // as requested
  std::optional<int64_t> classes;     // exclusive limit of class numbers, if known from the model
  bool adds_rows = false;             // whether model.resize_embeddings could add ids to the model
  int64_t jobs = 2;                   // number of threads, each with its own tokenizer process
  std::filesystem::path out;
};

struct PrepareProgress {
  int64_t shards = 0, all_shards = 0;
  int64_t bytes = 0, all_bytes = 0;  // in the sources
  int64_t ids = 0;                   // produced since the program started
};

struct Prepared {
  bool was_complete = false;  // the folder was complete before the call
  RowPlan plan;
  int64_t files = 0, rows = 0, ids = 0;  // rows of examples; ids of running text
  int64_t without_targets = 0;           // examples whose answer was cut off completely
  int64_t length = 0;                    // ids per example
  int64_t vocabulary = 0;                // of the tokenizer
  std::optional<int64_t> padding;        // id that pads examples
  std::optional<int64_t> mask;           // the tokenizer's mask id, for prediction targets
  int64_t labels = 0;  // number of a classifier's labels, from names or lists of numbers; 0 if neither is known
  std::string note;    // note for the user about how labels are numbered
};

/// Prepares whatever is not done yet. The same sources and options give the same bytes, for any number of jobs and
/// interruptions. Throws ConfigError, DataError or std::runtime_error; completed shards are kept.
Prepared prepare(const PrepareOptions& options, const ModelConfig& model,
                 const std::function<void(const PrepareProgress&)>& notify);

// Reads Sentence Transformers' tokenization options: prompts and the maximum length.

struct SentencePreparation {
  std::vector<std::string> prompts;  // one per text column; empty if no column has one
  std::optional<int64_t> longest;    // maximum number of ids of a text with its prompt
  std::string note;                  // to print; empty if the folder has no such options
};

/// Reads a tokenizer's folder for `columns` text columns. `names` are prompt names, one for all columns or one per
/// column; "" means no prompt. Without names the folder's default prompt is used. `longest` is at most `positions`.
/// Throws ConfigError for an unknown name or an invalid file.
SentencePreparation read_sentence_preparation(const std::filesystem::path& folder,
                                              const std::vector<std::string>& names, size_t columns,
                                              std::optional<int64_t> positions);

}  // namespace modular
