// Texts as data to train on: files of ids, or of examples, in a folder that appears when it is complete.
//
// Beside it, <out>.partial holds what is done so far: prepare.json (of which sources, by which options), the tokenizer,
// and each shard's file, which appears under its name when it is complete. The folder has besides
//   part-00000.tokens or part-00000.safetensors, …   a shard each
//   prepared.manifest                                 sizes and names of these
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
  std::optional<int64_t> vocabulary;  // ids that the model has, where that is known
  LabelTable labels;                  // of the model, where its folder is known
  std::string labels_folder;          // that folder, where its head has been trained for them
  std::optional<int64_t> num_labels;  // as asked for
  std::optional<int64_t> classes;     // of the model, where labels that are numbers have to be below that
  bool adds_rows = false;             // whether model.resize_embeddings could give the model more ids
  int64_t jobs = 2;                   // threads, each with a process for its tokenizer
  std::filesystem::path out;
};

struct PrepareProgress {
  int64_t shards = 0, all_shards = 0;
  int64_t bytes = 0, all_bytes = 0;  // of the sources
  int64_t ids = 0;                   // of what was done since the program began
};

struct Prepared {
  bool was_complete = false;  // before anything was done
  RowPlan plan;
  int64_t files = 0, rows = 0, ids = 0;  // rows of examples; ids of running text
  int64_t without_targets = 0;           // examples whose answer was cut off whole
  int64_t length = 0;                    // ids of an example
  int64_t vocabulary = 0;                // of the tokenizer
  std::optional<int64_t> padding;        // the id that examples are padded with
  std::optional<int64_t> mask;           // the tokenizer's id in place of what is to be predicted
  int64_t labels = 0;  // of a classifier, as names or as numbers of each row; 0 where neither is known
  std::string note;    // what is to be known of how labels are numbered
};

/// Prepares what is not done yet. The same sources and options give the same bytes, for any number of jobs and however
/// often it was interrupted. Throws ConfigError, DataError or std::runtime_error: what was done until
/// then is kept.
Prepared prepare(const PrepareOptions& options, const ModelConfig& model,
                 const std::function<void(const PrepareProgress&)>& tell);

}  // namespace modular
