#include "runtime/config/run_tokenizer.h"

#include <fmt/format.h>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/tokenizer/tokenizer.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

fs::path kept_tokenizer(const RunConfig& config) { return fs::path(config.train.dir) / kTokenizerFolder; }

bool reads_bytes(const RunConfig& config) {
  return has_property(config.data.format, &DataFormat::ids_are_bytes) && !config.data.paths.empty();
}

fs::path named_tokenizer(const RunConfig& config) {
  for (const fs::path& folder : {fs::path(config.model.tokenizer), kept_tokenizer(config)})
    if (has_tokenizer(folder)) return folder;
  throw ConfigError(fmt::format("model.tokenizer is {}, which has no tokenizer files", config.model.tokenizer));
}

fs::path tokenizer_of_data(const RunConfig& config) {
  for (const fs::path path : config.data.paths)
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
  if (reads_bytes(config)) return {};
  if (const fs::path of_data = tokenizer_of_data(config); !of_data.empty()) return of_data;
  return config.model.checkpoint.empty() ? fs::path()
                                         : tokenizer_of_weights(config.model.checkpoint, config.network.base);
}

int64_t vocabulary_of_run(const RunConfig& config) {
  const fs::path folder = tokenizer_of_run(config);
  if (folder.empty()) return reads_bytes(config) ? 256 : 0;
  return read_vocabulary_size(folder);
}

fs::path tokenizer_of_trained(const RunConfig& config) {
  const fs::path& weights = config.model.checkpoint;
  if (config.model.tokenizer.empty() && !reads_bytes(config) && !weights.empty())
    if (const fs::path own = tokenizer_of_weights(weights, config.network.base); !own.empty()) return own;
  return tokenizer_of_run(config);
}

void check_tokenizer(const RunConfig& config) {
  const fs::path folder = tokenizer_of_run(config);
  // Weights may come with a tokenizer that has additional ids, e.g. for images. The data's own ids are checked in any
  // case.
  if (folder.empty() || (config.model.tokenizer.empty() && folder != tokenizer_of_data(config))) return;
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
  const fs::path kept = kept_tokenizer(config);
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

}  // namespace modular
