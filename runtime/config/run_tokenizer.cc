#include "runtime/config/run_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/config/config_errors.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/tokenizer/tokenizer.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResize = "model.resize_embeddings";
constexpr const char* kPadding = "model.pad_vocab_to_multiple_of";

std::string rows_key(const ModelConfig& network) { return "model.config." + vocabulary_field(network); }

fs::path kept_tokenizer(const TrainSection& train) { return fs::path(train.dir) / kTokenizerFolder; }

bool reads_bytes(const DataSection& data) {
  return has_property(data.format, &DataFormat::ids_are_bytes) && !data.paths.empty();
}

fs::path named_tokenizer(const RunConfig& config) {
  for (const fs::path& folder : {fs::path(config.model.tokenizer), kept_tokenizer(config.train)})
    if (has_tokenizer(folder)) return folder;
  throw ConfigError(fmt::format("model.tokenizer is {}, which has no tokenizer files", config.model.tokenizer));
}

fs::path tokenizer_of_data(const DataSection& data) {
  for (const fs::path path : data.paths)
    for (const fs::path& folder : {path / kTokenizerFolder, path.parent_path() / kTokenizerFolder})
      if (has_tokenizer(folder)) return folder;
  return {};
}

/// One past the largest id; 0 for a kind of tokenizer that is not parsed here but copied nevertheless.
int64_t read_vocabulary_size(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json") || sentencepiece_model(folder).empty()) return tokenizer_vocabulary(folder);
  try {
    return Tokenizer(folder, "").vocabulary();
  } catch (const ConfigError&) {
    return 0;
  }
}

}  // namespace

fs::path tokenizer_of_run(const RunConfig& config) {
  if (!config.model.tokenizer.empty()) return named_tokenizer(config);
  if (reads_bytes(config.data)) return {};
  if (const fs::path of_data = tokenizer_of_data(config.data); !of_data.empty()) return of_data;
  return config.model.checkpoint.empty() ? fs::path()
                                         : tokenizer_of_weights(config.model.checkpoint, config.network.base);
}

int64_t vocabulary_of_run(const RunConfig& config) {
  const fs::path folder = tokenizer_of_run(config);
  if (folder.empty()) return reads_bytes(config.data) ? 256 : 0;
  return read_vocabulary_size(folder);
}

fs::path tokenizer_of_trained(const RunConfig& config) {
  const fs::path& weights = config.model.checkpoint;
  if (config.model.tokenizer.empty() && !reads_bytes(config.data) && !weights.empty())
    if (const fs::path own = tokenizer_of_weights(weights, config.network.base); !own.empty()) return own;
  return tokenizer_of_run(config);
}

void check_tokenizer(const RunConfig& config) {
  const fs::path folder = tokenizer_of_run(config);
  // Weights may come with a tokenizer that has additional ids, e.g. for images. The data's own ids are checked in any
  // case.
  if (folder.empty() || (config.model.tokenizer.empty() && folder != tokenizer_of_data(config.data))) return;
  const int64_t vocabulary = read_vocabulary_size(folder);
  const int64_t rows = vocabulary_rows(config.network);
  if (rows == 0 || vocabulary <= rows) return;
  const std::string key = "model.config." + vocabulary_field(config.network);
  const bool are_given = config.model.checkpoint.empty() || config.model.resize_embeddings;
  throw ConfigError(fmt::format(
      "the tokenizer in {} has ids up to {}, and {} is {}: take the model's own tokenizer, or {}", folder.string(),
      vocabulary - 1, key, rows,
      are_given ? fmt::format("set {} to {}", key, vocabulary) : "add rows with model.resize_embeddings = true"));
}

void keep_tokenizer(const RunConfig& config, bool resumed) {
  const fs::path kept = kept_tokenizer(config.train);
  if (resumed && has_tokenizer(kept)) return;
  const fs::path folder = tokenizer_of_run(config);
  if (!folder.empty() && fs::exists(kept) && fs::equivalent(folder, kept)) return;
  if (folder.empty()) {
    fs::remove_all(kept);  // from the run that this one replaces
    return;
  }
  NewFolder copied(kept);
  copy_tokenizer_with_class(folder, copied.partial());
  copied.publish();
}

void resize_embeddings(RunConfig& config, int64_t stored) {
  const int64_t multiple = config.model.pad_vocab_to_multiple_of;
  if (!config.model.resize_embeddings) {
    if (multiple > 0)
      throw_option_error(config, kPadding,
                         fmt::format("{} is {}, which adds rows: set {} = true", kPadding, multiple, kResize));
    return;
  }
  if (config.model.checkpoint.empty())
    throw_option_error(
        config, kResize,
        fmt::format(
            "{} is true, and there are no weights to resize: name them with model.checkpoint, or set {} of a new model",
            kResize, rows_key(config.network)));
  if (vocabulary_field(config.network).empty())
    throw_option_error(
        config, kResize,
        fmt::format("{} is true, and {} reads no tokens: leave it out", kResize, config.network.entry->architecture));
  const std::string key = rows_key(config.network);
  const bool is_given = config.origins.contains(key);
  int64_t rows = vocabulary_rows(config.network);
  if (is_given && rows < stored)
    throw_option_error(
        config, key,
        fmt::format("{} is {}, and the weights have {} rows: {} only adds rows", key, rows, stored, kResize));
  if (!is_given) rows = std::max(stored, vocabulary_of_run(config));
  if (multiple > 0) rows = (rows + multiple - 1) / multiple * multiple;
  config.network = with_vocabulary_rows(config.network, rows);
  config.network.added_rows_seed = static_cast<uint64_t>(config.train.seed);
  if (rows > stored && !is_given) config.origins[key] = kResize;
}

void check_resized(const RunConfig& config) {
  if (!config.model.resize_embeddings || config.model.pad_vocab_to_multiple_of > 0) return;
  const std::string key = rows_key(config.network);
  if (!config.origins.contains(key) && vocabulary_of_run(config) == 0)
    throw_option_error(config, kResize,
                       fmt::format("{} is true, and there is no tokenizer to take the number of rows from: name its "
                                   "folder with model.tokenizer, or set {}",
                                   kResize, key));
}

}  // namespace modular
