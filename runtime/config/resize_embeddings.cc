#include "runtime/config/resize_embeddings.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/run_tokenizer.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular {
namespace {

constexpr const char* kResize = "model.resize_embeddings";
constexpr const char* kPadding = "model.pad_vocab_to_multiple_of";

std::string rows_key(const RunConfig& config) { return "model.config." + vocabulary_field(config.network); }

}  // namespace

void resize_embeddings(RunConfig& config, int64_t stored) {
  const int64_t multiple = config.model.pad_vocab_to_multiple_of;
  if (!config.model.resize_embeddings) {
    if (multiple > 0)
      throw_option_error(config, kPadding,
                         fmt::format("{} is {}, and adds rows: set {} = true", kPadding, multiple, kResize));
    return;
  }
  if (config.model.checkpoint.empty())
    throw_option_error(
        config, kResize,
        fmt::format("{} is true, and there are no weights to add rows to: name them with model.checkpoint, "
                    "or set {} of a new model",
                    kResize, rows_key(config)));
  if (vocabulary_field(config.network).empty())
    throw_option_error(
        config, kResize,
        fmt::format("{} is true, and {} reads no tokens: leave it out", kResize, config.network.entry->architecture));
  const std::string key = rows_key(config);
  const bool is_given = config.origins.contains(key);
  int64_t rows = vocabulary_rows(config.network);
  if (is_given && rows < stored)
    throw_option_error(config, key,
                       fmt::format("{} is {}, and the weights have {} rows: {} adds rows and takes none away", key,
                                   rows, stored, kResize));
  if (!is_given) rows = std::max(stored, vocabulary_of_run(config));
  if (multiple > 0) rows = (rows + multiple - 1) / multiple * multiple;
  config.network = with_vocabulary_rows(config.network, rows);
  config.network.added_rows_seed = static_cast<uint64_t>(config.train.seed);
  if (rows > stored && !is_given) config.origins[key] = kResize;
}

void check_resized(const RunConfig& config) {
  if (!config.model.resize_embeddings || config.model.pad_vocab_to_multiple_of > 0) return;
  const std::string key = rows_key(config);
  if (!config.origins.contains(key) && vocabulary_of_run(config) == 0)
    throw_option_error(
        config, kResize,
        fmt::format("{} is true, and there is no tokenizer whose ids say how many rows: name its folder with "
                    "model.tokenizer, or set {}",
                    kResize, key));
}

}  // namespace modular
