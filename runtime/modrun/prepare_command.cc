// `modrun prepare` and `modrun repartition`: write training data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/config/config_field.h"
#include "runtime/data/files.h"
#include "runtime/data/model_inputs.h"
#include "runtime/datasets/partitions.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/prepare/prepare.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

struct PrepareArguments : ConfigArguments {
  std::vector<std::string> sources, texts, prompt_names;
  std::string entry, label, prompt, chat, documents = "files", python = "python3";
  std::filesystem::path tokenizer, out;
  std::optional<int64_t> seq_len;
  int64_t jobs = 2, shard_bytes = int64_t{8} << 20;
};

struct RepartitionArguments {
  std::vector<std::string> files;
  int64_t rows = 10'000;
  std::filesystem::path out;
};

constexpr double kMega = 1e6;

/// The tokenizer of --tokenizer, or of the weights.
std::filesystem::path get_tokenizer(const PrepareArguments& arguments, const ModelConfig& network,
                                    const std::string& weights) {
  if (!arguments.tokenizer.empty()) return arguments.tokenizer;
  const auto of_weights = weights.empty() ? std::filesystem::path() : tokenizer_of_weights(weights, network.base);
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
bool pads_otherwise(const ModelConfig& network, int64_t padding) {
  for (const ConfigField& field : model_fields(*network.config)) {
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
  if (prepared.padding && pads_otherwise(config.network, *prepared.padding))
    text += fmt::format(" --set model.config.pad_token_id={}", *prepared.padding);
  if (running && prepared.mask && config.network.entry->task == "masked-lm")
    text += fmt::format(" --set data.mask_token={}", *prepared.mask);
  if (prepared.labels > 0) text += fmt::format(" --set model.config.num_labels={}", prepared.labels);
  if (!prepared.plan.problem.empty()) text += fmt::format(" --set model.config.problem_type={}", prepared.plan.problem);
  return text;
}

void prepare_data(const PrepareArguments& asked) {
  ConfigArguments of_model = asked;
  if (!asked.entry.empty()) of_model.overrides.push_back("model.entry=" + asked.entry);
  const RunConfig config = read_run_config_for(of_model);
  const bool embeds = config.network.entry->task == "sentence-embedding";
  if (!embeds && !asked.prompt_names.empty())
    throw ConfigError(fmt::format("--prompt-names is for sentence-embedding, and {} is for {}: leave it out",
                                  config.network.entry->architecture, config.network.entry->task));
  PrepareOptions options{.sources = asked.sources,
                         .columns = {asked.texts, asked.label, asked.prompt, asked.chat},
                         .reading = {asked.documents == "lines", asked.shard_bytes, asked.python, !asked.chat.empty()},
                         .length = {asked.seq_len, longest_sequence(config.network)},
                         .tokenizer = get_tokenizer(asked, config.network, config.model.checkpoint),
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
    SentencePreparation sentences = read_sentence_preparation(
        folder, asked.prompt_names, std::max<size_t>(asked.texts.size(), 1), options.length.positions);
    options.columns.prompts = std::move(sentences.prompts);
    options.columns.leaves_prompts_out = !fields_as_json(*config.network.config).at("include_prompt").get<bool>();
    if (options.columns.leaves_prompts_out && !options.columns.prompts.empty())
      sentences.note += "; pooling leaves the prompts' tokens out";
    options.length.usual = sentences.longest;
    note = std::move(sentences.note);
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

void repartition_data(const RepartitionArguments& asked) {
  std::vector<std::filesystem::path> files;
  for (const DataFile& file : find_data_files({.format = "parquet", .paths = asked.files}).training)
    files.push_back(file.path);
  repartition(files, asked.rows, asked.out,
              [&](size_t done) { print_to(stdout, "{} of {} files\n", done, files.size()); });
  print_to(stdout, "{} holds {} files with row groups of {} rows\n", asked.out.string(), files.size(), asked.rows);
}

}  // namespace

ParsedCommand declare_prepare(CLI::App& app) {
  const auto arguments = std::make_shared<PrepareArguments>();
  app.add_option("SOURCE", arguments->sources, ".txt, .jsonl, .csv and .parquet files, and folders of them")
      ->required();
  app.add_option(
      "--tokenizer", arguments->tokenizer,
      "a folder with tokenizer.json or a SentencePiece .model, or such a file; default: that of --checkpoint");
  app.add_option("--entry", arguments->entry, "the model that will read the data: short for --set model.entry=NAME");
  app.add_option("--out", arguments->out, "folder to write")->required();
  app.add_option("--text", arguments->texts, "columns with texts, e.g. question,answer; default: text")->delimiter(',');
  app.add_option("--label", arguments->label, "column with labels, for seq2seq with target texts");
  app.add_option("--prompt", arguments->prompt,
                 "causal-lm: column with the prompt, which precedes the text and is not a target");
  app.add_option("--prompt-names", arguments->prompt_names,
                 "sentence-embedding: names of prompts in config_sentence_transformers.json to prepend to the texts "
                 "of each column, e.g. query,document, or one name for all; default: the file's default prompt")
      ->delimiter(',');
  app.add_option("--chat", arguments->chat,
                 "causal-lm: column with lists of messages, of which the assistant's are targets, instead of --text");
  app.add_option("--seq-len", arguments->seq_len, "ids per example; default: those of the longest")
      ->check(above_zero());
  app.add_option("--documents", arguments->documents, "documents of .txt files: files (one per file) or lines")
      ->check(CLI::IsMember({"files", "lines"}))
      ->capture_default_str();
  app.add_option("--jobs", arguments->jobs, "cores to use")->check(above_zero())->capture_default_str();
  app.add_option("--shard-size", arguments->shard_bytes, "bytes of sources per written file, e.g. 8MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--python", arguments->python, "Python with the package tokenizers")->capture_default_str();
  add_setting_option(app, *arguments, "KEY=VALUE: a config value of the model, e.g. model.config.vocab_size");
  add_checkpoint_option(app, *arguments);
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return prepare_data(*arguments), 0; });
}

ParsedCommand declare_repartition(CLI::App& app) {
  const auto arguments = std::make_shared<RepartitionArguments>();
  app.add_option("FILES", arguments->files, "Parquet files, and folders of them")->required();
  app.add_option("--rows", arguments->rows, "rows per row group; the last one of a file may have fewer")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--out", arguments->out, "folder to write")->required();
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return repartition_data(*arguments), 0; });
}

}  // namespace modular
