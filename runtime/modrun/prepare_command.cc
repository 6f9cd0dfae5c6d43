#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/config/config_field.h"
#include "runtime/config/printed_command.h"
#include "runtime/data/model_inputs.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/prepare/prepare.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

constexpr double kMega = 1e6;

/// The tokenizer of --tokenizer, or of the weights.
std::filesystem::path get_tokenizer(const Arguments& arguments, const RunConfig& config) {
  if (!arguments.prepare.tokenizer.empty()) return arguments.prepare.tokenizer;
  const auto of_weights = config.model.checkpoint.empty()
                              ? std::filesystem::path()
                              : tokenizer_of_weights(config.model.checkpoint, config.network.base);
  if (of_weights.empty()) throw ConfigError("there is no tokenizer: name its folder with --tokenizer");
  return of_weights;
}

/// Takes the labels from the model's folder: that of the weights, or else of the tokenizer.
void take_labels(const RunConfig& config, PrepareOptions& options) {
  const bool is_asked = config.origins.contains("model.config.num_labels");
  const auto asked = model_count(config.network, "num_labels");
  if (is_asked) options.num_labels = asked;
  std::filesystem::path folder = config.model.checkpoint;
  bool has_head = !folder.empty() && config.network.named.empty();
  if (is_asked || has_head) options.classes = asked;
  if (!folder.empty()) {
    options.labels = LabelTable::of(config.network);
  } else {
    folder = options.tokenizer;
    const auto file = folder / "config.json";
    if (!std::filesystem::is_regular_file(file) || !asked) return;
    const nlohmann::json keys = parse_config_json(read_file(file, kMostTextBytes, Links::followed));
    const auto names = keys.find("id2label");
    if (!keys.is_object() || names == keys.end() || !names->is_object()) return;
    const auto count = static_cast<int64_t>(names->size());
    if (is_asked && count != *asked) return;
    options.labels = LabelTable(keys, count);
    has_head = keys.value("architectures", nlohmann::json()) ==
               nlohmann::json{std::string(config.network.entry->architecture)};
  }
  if (has_head)
    options.labels_folder = folder.string();
  else if (!options.labels.has_names())
    options.labels = {};  // they belong to a head that is replaced
}

/// Prints progress once per second and at the end.
class Progress {
 public:
  void operator()(const PrepareProgress& now) {
    const auto time = Clock::now();
    if (now.shards < now.all_shards && time - said_ < std::chrono::seconds(1)) return;
    said_ = time;
    const double seconds = std::chrono::duration<double>(time - began_).count();
    print_to(stdout, "{} of {} shards, {:.1f} of {:.1f} MB; {:.2f} M ids in {:.0f} s\n", now.shards, now.all_shards,
             static_cast<double>(now.bytes) / kMega, static_cast<double>(now.all_bytes) / kMega,
             static_cast<double>(now.ids) / kMega, seconds);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now(), said_;
};

/// Whether the model's config has a padding id, and a different one: some classifiers find the end of a row by it.
bool pads_otherwise(const RunConfig& config, int64_t padding) {
  for (const ConfigField& field : model_fields(*config.network.config)) {
    if (field.path != "model.config.pad_token_id") continue;
    if (const auto* const* id = std::get_if<int64_t*>(&field.value)) return **id != padding;
    if (const auto* const* id = std::get_if<std::optional<int64_t>*>(&field.value)) return **id != padding;
  }
  return false;
}

/// Describes the prepared data, with the command to train on it.
std::string summary(const Prepared& prepared, const RunConfig& config, const std::filesystem::path& out) {
  const bool running = prepared.plan.form == RowPlan::Form::running_text;
  std::string folder = out.string();
  std::string text = running ? fmt::format("{} holds {} ids in {} files", out.string(), prepared.ids, prepared.files)
                             : fmt::format("{} holds {} examples of {} ids in {} files", out.string(), prepared.rows,
                                           prepared.length, prepared.files);
  if (prepared.without_targets > 0)
    text += fmt::format(", of which {} have no targets, as their answers are cut off", prepared.without_targets);
  if (!prepared.note.empty()) text += "\n" + prepared.note;
  text += fmt::format("\nmodrun train --set model.entry={} --set data.format={} --set {}", config.model.entry,
                      running ? "tokens" : "examples", shell_word(fmt::format("data.paths=[{}]", toml_value(&folder))));
  if (!config.model.checkpoint.empty())
    text += fmt::format(" --set {}", shell_word("model.checkpoint=" + config.model.checkpoint));
  if (config.model.checkpoint.empty() && prepared.vocabulary > 0)
    text += fmt::format(" --set model.config.vocab_size={}", config.origins.contains("model.config.vocab_size")
                                                                 ? vocab_size(config.network)
                                                                 : prepared.vocabulary);
  if (config.model.resize_embeddings) text += " --set model.resize_embeddings=true";
  if (config.model.pad_vocab_to_multiple_of > 0)
    text += fmt::format(" --set model.pad_vocab_to_multiple_of={}", config.model.pad_vocab_to_multiple_of);
  if (!config.model.base.empty()) text += fmt::format(" --set {}", shell_word("model.base=" + config.model.base));
  if (prepared.padding && pads_otherwise(config, *prepared.padding))
    text += fmt::format(" --set model.config.pad_token_id={}", *prepared.padding);
  if (running && prepared.mask && config.network.entry->task == "masked-lm")
    text += fmt::format(" --set data.mask_token={}", *prepared.mask);
  if (prepared.labels > 0) text += fmt::format(" --set model.config.num_labels={}", prepared.labels);
  if (!prepared.plan.problem.empty()) text += fmt::format(" --set model.config.problem_type={}", prepared.plan.problem);
  return text;
}

}  // namespace

void prepare_data(const Arguments& arguments) {
  const PrepareArguments& asked = arguments.prepare;
  Arguments of_model = arguments;
  if (!asked.entry.empty()) of_model.settings.push_back("model.entry=" + asked.entry);
  const RunConfig config = read_run_config_for(of_model);
  const bool embeds = config.network.entry->task == "sentence-embedding";
  if (!embeds && !asked.prompt_names.empty())
    throw ConfigError(fmt::format("--prompt-names is for sentence-embedding, and {} is for {}: leave it out",
                                  config.network.entry->architecture, config.network.entry->task));
  PrepareOptions options{.sources = asked.sources,
                         .columns = {asked.texts, asked.label, asked.prompt, asked.chat},
                         .reading = {asked.documents == "lines", asked.shard_bytes, asked.python, !asked.chat.empty()},
                         .length = {asked.seq_len, longest_sequence(config.network)},
                         .tokenizer = get_tokenizer(arguments, config),
                         .vocabulary = {},
                         .adds_rows = !config.model.checkpoint.empty(),
                         .jobs = asked.jobs,
                         .out = asked.out};
  if (const RowLength& length = options.length; length.asked && length.positions && *length.asked > *length.positions)
    throw ConfigError(fmt::format("--seq-len is {}, and {} has positions for {}: give at most that", *length.asked,
                                  config.network.entry->architecture, *length.positions));
  std::string note;
  if (embeds) {
    const std::filesystem::path folder =
        is_directory(options.tokenizer) ? options.tokenizer : absolute(options.tokenizer).parent_path();
    SentenceSettings settings = read_sentence_settings(
        folder, asked.prompt_names, std::max<size_t>(asked.texts.size(), 1), options.length.positions);
    options.columns.prompts = std::move(settings.prompts);
    options.columns.leaves_prompts_out = !fields_as_json(*config.network.config).at("include_prompt").get<bool>();
    if (options.columns.leaves_prompts_out && !options.columns.prompts.empty())
      settings.note += "; pooling leaves the prompts' tokens out";
    options.length.usual = settings.longest;
    note = std::move(settings.note);
  }
  // With model.resize_embeddings the model gets rows for all ids, unless the number is given.
  const bool is_given = config.origins.contains("model.config.vocab_size") && !config.model.resize_embeddings;
  if (is_given || (!config.model.checkpoint.empty() && !config.model.resize_embeddings))
    options.vocabulary = vocab_size(config.network);
  take_labels(config, options);
  if (!note.empty()) print_to(stdout, "{}\n", note);
  const Prepared prepared = prepare(options, config.network, Progress());
  if (prepared.was_complete)
    print_to(stdout, "{} is complete: nothing to prepare\n", asked.out.string());
  else
    print_to(stdout, "{}\n", summary(prepared, config, asked.out));
}

}  // namespace modular
