#include "runtime/prepare/prepare.h"

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/files.h"
#include "runtime/data/token_formats.h"
#include "runtime/model/tensors.h"
#include "runtime/prepare/example_files.h"
#include "runtime/prepare/prepared_folder.h"
#include "runtime/prepare/source_kinds.h"
#include "runtime/train/folder_lock.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Shards = std::vector<std::vector<Piece>>;

json optional(const std::optional<int64_t>& value) { return value ? json(*value) : json(); }

json to_manifest(const PrepareOptions& options, const ModelConfig& model, const RowPlan& plan,
                 const std::vector<Source>& sources) {
  json manifest = {{"entry", model.entry->architecture},
                   {"columns", plan.columns},
                   {"prompt", options.columns.prompt},
                   {"label", options.columns.label},
                   {"chat", options.columns.chat.empty() ? json() : json(options.columns.chat)},
                   {"documents", options.reading.lines ? "lines" : "files"},
                   {"seq_len", optional(options.length.asked)},
                   {"positions", optional(options.length.positions)},
                   {"longest", optional(options.length.usual)},
                   {"prompts", plan.prompts.empty() ? json() : json(plan.prompts)},
                   {"leaves_prompts_out", plan.leaves_prompts_out ? json(true) : json()},
                   {"token_type_ids", plan.has_types},
                   {"shard_bytes", options.reading.piece_bytes},
                   {"sources", json::array()}};
  if (plan.has_label && options.labels.has_names()) manifest["labels"] = options.labels.names();
  if (!plan.problem.empty()) manifest["problem"] = plan.problem;
  for (const Source& source : sources)
    manifest["sources"].push_back(
        {{"path", source.path.string()}, {"bytes", source.bytes}, {"modified", source.modified}});
  return manifest;
}

/// Encodes the shards that have no file yet, with several threads.
class ShardWork {
 public:
  ShardWork(const PrepareOptions& options, const RowPlan& plan, const std::vector<Source>& sources,
            const Shards& shards, const PreparedFolder& folder,
            const std::function<void(const PrepareProgress&)>& notify)
      : options_(options), plan_(plan), sources_(sources), shards_(shards), folder_(folder), notify_(notify) {
    progress_.all_shards = static_cast<int64_t>(shards.size());
    for (const Source& source : sources) progress_.all_bytes += source.bytes;
    for (size_t shard = 0; shard < shards.size(); ++shard)
      if (fs::exists(get_file(shard)))
        count(shard, 0);
      else
        todo_.push_back(shard);
  }

  /// The file for a shard's rows or ids.
  fs::path get_file(size_t shard) const {
    if (plan_.form == RowPlan::Form::running_text) return folder_.part(shard, ".tokens");
    return folder_.work() / fmt::format("{:05}.safetensors", shard);
  }

  /// Location of a shard's row for messages. Reads the shard's sources again.
  std::string row_location(size_t shard, size_t row) const {
    RecordReader reader(plan_.columns, options_.reading);
    for (const Piece& piece : shards_[shard]) {
      std::vector<Record> records;
      reader.read(sources_[piece.source], piece, records);
      if (row < records.size()) return get_location(sources_[piece.source], piece, records[row]);
      row -= records.size();
    }
    return sources_[shards_[shard].back().source].path.string();  // the source has changed since
  }

  /// `tokenizer` is the calling thread's. Throws the exception of the first shard that failed, after all earlier shards
  /// are done.
  void run(Tokenizer& tokenizer) {
    if (!todo_.empty() && todo_.size() < shards_.size()) notify_(progress_);
    std::vector<std::thread> threads;
    {
      const auto join = c10::make_scope_exit([&] {
        for (std::thread& thread : threads) thread.join();
      });
      for (int64_t job = 1; job < std::min<int64_t>(options_.jobs, static_cast<int64_t>(todo_.size())); ++job)
        threads.emplace_back([this] {
          // The tokenizer's process ends with the thread that started it.
          std::optional<Tokenizer> own;
          work([&]() -> Tokenizer& { return own ? *own : own.emplace(folder_.tokenizer(), options_.reading.python); });
        });
      work([&]() -> Tokenizer& { return tokenizer; });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  template <class TokenizerOfThread>
  void work(TokenizerOfThread&& tokenizer) {
    RecordReader reader(plan_.columns, options_.reading);
    for (size_t at; (at = next_++) < failed_at_ && at < todo_.size();) {
      try {
        encode(todo_[at], reader, tokenizer());
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (at < failed_at_) failed_at_ = at, failure_ = std::current_exception();
      }
    }
  }

  void encode(size_t shard, RecordReader& reader, Tokenizer& tokenizer) {
    std::vector<PieceRecords> pieces;
    for (const Piece& piece : shards_[shard]) {
      pieces.push_back({&sources_[piece.source], piece, {}});
      reader.read(sources_[piece.source], piece, pieces.back().records);
    }
    const Rows rows = encode_rows(pieces, plan_, options_.length, tokenizer);
    if (plan_.form == RowPlan::Form::running_text) {
      const fs::path file = get_file(shard), partial = file.string() + ".partial";
      write_token_file(partial, std::vector<int64_t>(rows.ids.begin(), rows.ids.end()));
      publish_file(partial, file);
    } else {
      write_rows(get_file(shard), rows);
    }
    const std::lock_guard lock(mutex_);
    count(shard, static_cast<int64_t>(rows.ids.size()));
    notify_(progress_);
  }

  void count(size_t shard, int64_t ids) {
    ++progress_.shards;
    progress_.ids += ids;
    for (const Piece& piece : shards_[shard]) {
      const Source& source = sources_[piece.source];
      const bool by_bytes = source.kind->unit == SourceKind::Unit::lines_of_piece;
      progress_.bytes += by_bytes ? piece.end - piece.begin : source.bytes / source.begins.back();
    }
  }

  const PrepareOptions& options_;
  const RowPlan& plan_;
  const std::vector<Source>& sources_;
  const Shards& shards_;
  const PreparedFolder& folder_;
  const std::function<void(const PrepareProgress&)>& notify_;
  std::vector<size_t> todo_;  // in order
  std::atomic<size_t> next_ = 0, failed_at_ = SIZE_MAX;
  std::mutex mutex_;
  PrepareProgress progress_;
  std::exception_ptr failure_;
};

void check_vocabulary(const PrepareOptions& options, const ModelConfig& model, const Tokenizer& tokenizer) {
  if (!options.vocabulary || tokenizer.vocabulary() <= *options.vocabulary) return;
  throw ConfigError(fmt::format(
      "{} has ids up to {}, and {} reads ids below {}: take the model's own tokenizer, or {}",
      options.tokenizer.string(), tokenizer.vocabulary() - 1, model.entry->architecture, *options.vocabulary,
      options.adds_rows ? "add rows with --set model.resize_embeddings=true"
                        : fmt::format("set model.config.vocab_size to {}", tokenizer.vocabulary())));
}

[[noreturn]] void reject_empty() { throw DataError("the sources have no rows: name files with at least one text"); }

/// Converts rows to their final form, from existing files, and returns the files of the prepared data.
std::vector<fs::path> write_parts(const PrepareOptions& options, const ShardWork& work, size_t shards,
                                  const PreparedFolder& folder, const Tokenizer& tokenizer, Prepared& prepared) {
  std::vector<fs::path> parts, files;
  for (size_t shard = 0; shard < shards; ++shard) files.push_back(work.get_file(shard));
  if (prepared.plan.form == RowPlan::Form::running_text) {
    for (const fs::path& file : files) prepared.ids += read_token_header(file).tokens();
    if (prepared.ids == 0) reject_empty();
    return files;
  }
  ExampleShape shape = find_shape(files, prepared.plan, options.length, options.labels, options.classes);
  if (shape.wrong)
    throw DataError(
        fmt::format("{}: its label, \"{}\", is {}: write an integer from 0 {}, or {} where there is no target{}",
                    work.row_location(shape.wrong->file, shape.wrong->row), prepared.plan.columns.back(),
                    shape.wrong->label, options.classes ? fmt::format("to {}", *options.classes - 1) : "on",
                    kIgnoredTarget, options.classes ? "; for more labels set model.config.num_labels" : ""));
  const std::vector<std::string> names = label_names(shape);
  const bool has_scores = prepared.plan.problem == "regression" && prepared.plan.has_label;
  prepared.labels = !names.empty()      ? static_cast<int64_t>(names.size())
                    : shape.numbers > 0 ? shape.numbers
                                        : has_scores;
  if (options.num_labels && (has_scores || shape.numbers > 0) && prepared.labels != *options.num_labels)
    throw ConfigError(fmt::format("\"{}\" has {} numbers per row, and model.config.num_labels is {}: set it to {}",
                                  prepared.plan.columns.back(), prepared.labels, *options.num_labels, prepared.labels));
  if (!options.labels_folder.empty()) prepared.note = labels_note(shape.named, options.labels, options.labels_folder);
  shape.padding = tokenizer.padding().value_or(tokenizer.end_of_text().value_or(0));
  shape.pads_left = tokenizer.pads_left();
  for (size_t shard = 0; shard < shards; ++shard) {
    const Rows rows = read_rows(files[shard]);
    if (rows.count() == 0) continue;
    prepared.rows += static_cast<int64_t>(rows.count() / prepared.plan.texts_of_row());
    if (!prepared.plan.leaves_prompts_out) prepared.without_targets += rows_without_targets(rows);
    write_examples(parts.emplace_back(folder.part(shard, ".safetensors")), rows, prepared.plan, shape);
  }
  if (parts.empty()) reject_empty();
  if (prepared.without_targets == prepared.rows)
    throw DataError(
        fmt::format("no answer has an id within the first {} of its example, so there is nothing to train on: raise "
                    "--seq-len",
                    shape.ids));
  json numbers = json::object();
  for (size_t number = 0; number < names.size(); ++number) numbers[names[number]] = number;
  if (!names.empty()) write_file(parts.front().parent_path() / kLabelNames, numbers.dump(2) + "\n");
  prepared.length = shape.ids;
  prepared.padding = shape.padding;
  return parts;
}

}  // namespace

Prepared prepare(const PrepareOptions& options, const ModelConfig& model,
                 const std::function<void(const PrepareProgress&)>& notify) {
  Prepared prepared{.plan = plan_rows(model, options.columns)};
  RecordReader reader(prepared.plan.columns, options.reading);
  const std::vector<Source> sources = find_sources(options.sources, reader);
  const Shards shards = split_into_shards(sources, options.reading.piece_bytes);
  if (shards.empty()) reject_empty();
  if (prepared.plan.form == RowPlan::Form::running_text && options.length.asked)
    throw ConfigError("--seq-len is the length of examples; running text is cut by train.seq_len: leave it out");
  PreparedFolder folder(options.out, to_manifest(options, model, prepared.plan, sources), options.tokenizer);
  if (folder.is_complete()) {
    prepared.was_complete = true;
    return prepared;
  }
  const FolderLock lock(folder.work());
  Tokenizer tokenizer(folder.tokenizer(), options.reading.python);
  folder.check_program(tokenizer.program(), options.reading.python);
  check_vocabulary(options, model, tokenizer);
  if (prepared.plan.form == RowPlan::Form::conversation) tokenizer.check_chat();
  prepared.vocabulary = tokenizer.vocabulary();
  prepared.mask = tokenizer.mask();
  prepared.plan.has_types = prepared.plan.has_types && tokenizer.gives_types();
  ShardWork work(options, prepared.plan, sources, shards, folder, notify);
  work.run(tokenizer);
  const std::vector<fs::path> parts = write_parts(options, work, shards.size(), folder, tokenizer, prepared);
  prepared.files = static_cast<int64_t>(parts.size());
  folder.publish(parts);
  return prepared;
}

}  // namespace modular
