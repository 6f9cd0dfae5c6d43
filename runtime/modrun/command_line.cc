#include "runtime/modrun/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/config/config_field.h"
#include "runtime/config/known_devices.h"
#include "runtime/launch/launcher.h"
#include "runtime/mesh/print.h"

namespace modular {

namespace {

/// CLI11's own errors show the largest representable number.
CLI::Validator number_check(bool may_be_zero) {
  return CLI::Validator(
      [may_be_zero](const std::string& text) {
        double number = 0.0;
        if (CLI::detail::lexical_cast(text, number) && (number > 0.0 || (may_be_zero && number == 0.0)))
          return std::string();
        return fmt::format("it must be {}, but is {}", may_be_zero ? "at least 0" : "above 0", text);
      },
      may_be_zero ? "NOT NEGATIVE" : "ABOVE 0");
}
const CLI::Validator kAboveZero = number_check(false), kNotNegative = number_check(true);

/// Maps --tp 2 to --set parallel.tp=2, and so on.
void add_mesh_options(CLI::App* command, Arguments& arguments) {
  for (const auto& [flag, key] : {std::pair("--pp", "pp"), std::pair("--dp-replicate", "dp_replicate"),
                                  std::pair("--dp-shard", "dp_shard"), std::pair("--tp", "tp")})
    command->add_option_function<std::string>(
        flag,
        [&arguments, key = key](const std::string& size) {
          arguments.settings.push_back(std::string("parallel.") + key + "=" + size);
        },
        std::string("size of the mesh axis: short for --set parallel.") + key + "=N");
}

void add_trust_option(CLI::App* command, Arguments& arguments) {
  command->add_flag("--trust-folder", arguments.trust_folder,
                    "run the programs and load the libraries that CONFIG names, if it is a run's folder");
}

void add_run_options(CLI::App* command, Arguments& arguments) {
  command->add_option("CONFIG,-c,--config", arguments.config, "TOML file, or a run's folder");
  command
      ->add_option("--set", arguments.settings,
                   "KEY=VALUE: overrides a value of the file (`modrun settings` lists the keys); KEY=VALUE after -- is "
                   "equivalent")
      ->allow_extra_args(false);
  add_trust_option(command, arguments);
  add_mesh_options(command, arguments);
}

void add_checkpoint_option(CLI::App* command, Arguments& arguments) {
  command->add_option(
      "--checkpoint", arguments.checkpoint,
      "a checkpoint, a folder of checkpoints, a run's folder, or a Hugging Face folder; default: the run's newest");
}

void add_advise_options(CLI::App* command, Arguments& arguments) {
  AdviseArguments& advise = arguments.advise;
  command->add_option("--nodes", advise.nodes, "machines")->capture_default_str();
  command->add_option("--per-node", advise.per_node,
                      "devices per machine; default: this machine's if they are used, else 8");
  command->add_option("--device", advise.device,
                      "cpu, or a device with a known data sheet: " + names_of_known_devices() +
                          "; default: this machine's, unless other device options are given");
  command->add_option("--memory", advise.memory, "memory per device, e.g. 80GiB; default: by --device");
  command->add_option("--link", advise.link, "bandwidth between devices of a machine, per direction, e.g. 450GB/s");
  command->add_option("--between", advise.between,
                      "bandwidth between devices of two machines if all devices communicate, e.g. 25GB/s");
  command->add_option("--host", advise.host, "bandwidth between a device and host memory")->capture_default_str();
  command->add_option("--flops", advise.flops,
                      "a device's peak in operations/s, e.g. 989e12; default: metrics.peak_tflops, or by --device");
  command->add_option("--attained", advise.attained,
                      "fraction of that peak that large matmuls reach; default: 0.5, or 0.8 of a measured peak");
  command->add_option(
      "--memory-speed", advise.memory_speed,
      "bandwidth of device memory, e.g. 3.35TB/s; default: by --device, or one byte per 250 of --flops");
  command->add_option("--reserve", advise.reserve, "fraction of --memory for libraries and fragmentation")
      ->capture_default_str();
  command->add_option("--cost", advise.cost, "cost per device and hour, in any currency");
  command->add_option("--top", advise.top, "number of meshes to show")->check(kAboveZero)->capture_default_str();
  command->add_flag("--as-is", advise.as_is, "evaluate CONFIG's own mesh and options there, without a search");
  command->add_option("--out", advise.out, "write CONFIG with the best mesh as a TOML file to train with");
  command->add_option("--format", advise.format, "text, markdown or json")
      ->check(CLI::IsMember({"text", "markdown", "json"}));
}

void add_prepare_options(CLI::App* command, Arguments& arguments) {
  PrepareArguments& prepare = arguments.prepare;
  command->add_option("SOURCE", prepare.sources, ".txt, .jsonl, .csv and .parquet files, and folders of them")
      ->required();
  command->add_option(
      "--tokenizer", prepare.tokenizer,
      "a folder with tokenizer.json or a SentencePiece .model, or such a file; default: that of --checkpoint");
  command->add_option("--entry", prepare.entry, "the model that will read the data: short for --set model.entry=NAME");
  command->add_option("--out", prepare.out, "folder to write")->required();
  command->add_option("--text", prepare.texts, "columns with texts, e.g. question,answer; default: text")
      ->delimiter(',');
  command->add_option("--label", prepare.label, "column with labels, for seq2seq with target texts");
  command->add_option("--prompt", prepare.prompt,
                      "causal-lm: column with the prompt, which precedes the text and is not a target");
  command
      ->add_option("--prompt-names", prepare.prompt_names,
                   "sentence-embedding: names of prompts in config_sentence_transformers.json to prepend to the texts "
                   "of each column, e.g. query,document, or one name for all; default: the file's default prompt")
      ->delimiter(',');
  command->add_option(
      "--chat", prepare.chat,
      "causal-lm: column with lists of messages, of which the assistant's are targets, instead of --text");
  command->add_option("--seq-len", prepare.seq_len, "ids per example; default: those of the longest")
      ->check(kAboveZero);
  command->add_option("--documents", prepare.documents, "documents of .txt files: files (one per file) or lines")
      ->check(CLI::IsMember({"files", "lines"}))
      ->capture_default_str();
  command->add_option("--jobs", prepare.jobs, "cores to use")->check(kAboveZero)->capture_default_str();
  command->add_option("--shard-size", prepare.shard_bytes, "bytes of sources per written file, e.g. 8MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(kAboveZero)
      ->capture_default_str();
  command->add_option("--python", prepare.python, "Python with the package tokenizers")->capture_default_str();
  command
      ->add_option("--set", arguments.settings, "KEY=VALUE: a config value of the model, e.g. model.config.vocab_size")
      ->allow_extra_args(false);
  add_checkpoint_option(command, arguments);
}

/// Help of the program, including the launcher's flags, which precede the command and are parsed before CLI11.
const char* footer() {
  static const std::string text =
      launch_flags_help() +
      std::string(
          "\nExit status: 0 done; 1 the command failed while it ran; 2 rejected before anything ran "
          "(command line, config, data, mesh, checkpoint); 128 + n stopped by signal n.");
  return text.c_str();
}

}  // namespace

std::vector<std::string> split_words(const std::string& command, const Arguments& arguments) {
  std::vector<std::string> words = {command};
  if (!arguments.config.empty()) words.push_back(arguments.config.string());
  for (const auto& setting : arguments.settings) words.insert(words.end(), {"--set", setting});
  if (arguments.trust_folder) words.emplace_back("--trust-folder");
  return words;
}

namespace {

/// Rewrites a trailing `-- KEY=VALUE …` to `--set KEY=VALUE …` for commands with config options. Throws ConfigError if
/// a word is not an assignment.
std::vector<std::string> with_options_after_dashes(const CLI::App& app, std::vector<std::string> words) {
  const auto dashes = std::ranges::find(words, "--");
  const auto commands = app.get_subcommands(
      [&](const CLI::App* command) { return !words.empty() && command->get_name() == words.front(); });
  if (dashes == words.end() || commands.empty() || !commands.front()->get_option_no_throw("--set")) return words;
  const std::vector<std::string> settings(dashes + 1, words.end());
  words.erase(dashes, words.end());
  for (const std::string& setting : settings) {
    if (setting.find('=') == std::string::npos)
      throw ConfigError(fmt::format("after --, expected KEY=VALUE, but got \"{}\"", setting));
    words.insert(words.end(), {"--set", setting});
  }
  return words;
}

}  // namespace

ParsedCommandLine parse_command_line(const std::vector<std::string>& words) {
  ParsedCommandLine result;
  auto& arguments = result.arguments;
  CLI::App app("Trains, evaluates and converts the models that modgen generates, on one process or many.",
               "modrun [LAUNCHER FLAGS]");
  app.footer(footer());
  app.set_version_flag("--version", MODULAR_VERSION);
  app.require_subcommand(1);

  auto* train = app.add_subcommand("train", "Train a model");
  add_run_options(train, arguments);
  auto* resume = train->add_flag("--resume{yes}", arguments.resume,
                                 "continue from the newest checkpoint of train.dir; --resume=auto starts a run if "
                                 "there is none; --resume=step-00000100 continues from that checkpoint");
  train->add_flag("--overwrite", arguments.overwrite, "start over in a folder that holds a run")->excludes(resume);

  auto* eval = app.add_subcommand("eval", "Evaluate a model on the validation data");
  add_run_options(eval, arguments);
  add_checkpoint_option(eval, arguments);

  auto* sample = app.add_subcommand("sample", "Generate text with a model");
  add_run_options(sample, arguments);
  add_checkpoint_option(sample, arguments);
  auto* prompts =
      sample->add_option("--prompt", arguments.prompts, "text to continue, may be repeated; default: sample.prompt")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  sample
      ->add_option("--prompts", arguments.prompts_file,
                   "file of texts to continue: one per line, or in a .jsonl file {\"prompt\": \"…\"} per line")
      ->excludes(prompts);
  sample->add_flag("--chat", arguments.chat, "format the text as a user message with the tokenizer's chat template");

  auto* predict = app.add_subcommand("predict", "Write a model's predictions for the examples in a file");
  add_run_options(predict, arguments);
  add_checkpoint_option(predict, arguments);
  predict->add_option("--inputs", arguments.inputs, "safetensors file of examples, with or without labels")->required();
  predict
      ->add_option("--outputs", arguments.outputs, "safetensors file to write: labels and scores, items or embeddings")
      ->required();
  predict->add_option("--batch-size", arguments.batch_size, "samples per forward and rank")
      ->check(kAboveZero)
      ->capture_default_str();

  auto* forward =
      app.add_subcommand("forward", "Run one batch from a file and write logits, loss and gradients to a file");
  add_run_options(forward, arguments);
  add_checkpoint_option(forward, arguments);
  forward->get_option("--checkpoint")->required();
  forward
      ->add_option("--inputs", arguments.inputs,
                   "safetensors file: input_ids, and labels, attention_mask, position_ids")
      ->required();
  forward->add_option("--outputs", arguments.outputs, "safetensors file to write")->required();
  forward->add_flag("--gradients", arguments.gradients, "also write gradients.<parameter>, of the mean loss");

  auto* export_command = app.add_subcommand("export", "Write a checkpoint as a Hugging Face folder");
  export_command
      ->add_option(
          "CHECKPOINT", arguments.source,
          "a checkpoint, a folder of checkpoints, a run's folder, or a PEFT folder, which is merged into its base")
      ->required();
  export_command->add_option("FOLDER", arguments.target, "Hugging Face folder to write")->required();
  export_command->add_option("--dtype", arguments.dtype, "float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();

  export_command->add_flag("--adapter", arguments.adapter,
                           "for a run with lora.layers: write the adapters only, in PEFT's format, without merging");
  export_command->add_option("--base", arguments.base_model,
                             "with --adapter: name or folder of the model that the adapters are for; for a PEFT "
                             "folder: folder of its base model, instead of the one that it names");
  export_command
      ->add_option("--max-shard-size", arguments.max_shard_bytes, "split larger models into several files, e.g. 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();

  auto* import_command = app.add_subcommand("import", "Write a Hugging Face folder as a checkpoint");
  import_command->add_option("FOLDER", arguments.source, "Hugging Face folder, or PEFT folder")->required();
  import_command->add_option("CHECKPOINT", arguments.target, "checkpoint to write")->required();
  import_command->add_option("--base", arguments.base_model,
                             "for a PEFT folder: folder of its base model, instead of the one that it names");

  add_prepare_options(app.add_subcommand("prepare", "Tokenize texts into training data"), arguments);

  auto* repartition = app.add_subcommand("repartition", "Rewrite Parquet files with other row groups");
  repartition->add_option("FILES", arguments.repartition.files, "Parquet files, and folders of them")->required();
  repartition
      ->add_option("--rows", arguments.repartition.rows, "rows per row group; the last one of a file may have fewer")
      ->check(kAboveZero)
      ->capture_default_str();
  repartition->add_option("--out", arguments.repartition.out, "folder to write")->required();

  auto* search = app.add_subcommand("search", "Train a config with other values in each trial, and find the best");
  search->add_option("CONFIG,-c,--config", arguments.config, "TOML file with [search] and [search.space]")->required();
  search
      ->add_option("--set", arguments.settings,
                   "KEY=VALUE: a config value of all trials, or of the search: search.seed=2")
      ->allow_extra_args(false);
  add_trust_option(search, arguments);
  add_mesh_options(search, arguments);
  search->add_option("--trials", arguments.trials, "maximum number of trials; default: search.trials")
      ->check(kAboveZero);
  search
      ->add_option("--workers", arguments.workers,
                   "concurrent trials on this machine, each a job of --nproc-per-node ranks; they share cores and "
                   "memory, and each has its own GPUs")
      ->check(kAboveZero)
      ->capture_default_str();
  search->add_flag("--resume{yes}", arguments.resume, "continue the study in search.dir");

  auto* plan = app.add_subcommand(
      "plan",
      "Show how a run is distributed over its ranks, with memory and communication per rank, without starting any");
  add_run_options(plan, arguments);
  plan->add_option("--ranks", arguments.ranks, "number of ranks; default: from the launcher's flags")
      ->check(kAboveZero);
  plan->add_option("--format", arguments.format, "text or json")->check(CLI::IsMember({"text", "json"}));

  auto* advise = app.add_subcommand(
      "advise", "Rank the meshes of a cluster that fit a run by their time per step, without starting any");
  add_run_options(advise, arguments);
  add_advise_options(advise, arguments);

  auto* bench = app.add_subcommand("bench", "Compare parallelism strategies on this machine");
  add_run_options(bench, arguments);
  bench->add_option("--ranks", arguments.ranks, "ranks per strategy; default: 2")->check(kAboveZero);
  bench
      ->add_option(
          "--strategies", arguments.strategies,
          "strategies: none (one rank), dp (one process, one thread per replica), ddp, zero1, zero2, fsdp, tp and pp")
      ->delimiter(',');
  bench->add_option("--steps", arguments.steps, "measured steps per strategy, over all rounds")
      ->check(kAboveZero)
      ->capture_default_str();
  bench->add_option("--rounds", arguments.rounds, "rounds in which the strategies take turns")
      ->check(kAboveZero)
      ->capture_default_str();
  bench->add_option("--format", arguments.format, "markdown or json")->check(CLI::IsMember({"markdown", "json"}));

  auto* measure = app.add_subcommand("measure", "Measure some training steps, without leaving a run behind");
  add_run_options(measure, arguments);
  measure->add_option("--steps", arguments.steps, "measured steps")->check(kAboveZero)->capture_default_str();
  measure->add_option("--warm-up", arguments.warm_up, "steps before the measured ones")
      ->check(kNotNegative)
      ->capture_default_str();
  measure->add_option("--report", arguments.report, "JSON file to write; default: standard output");

  auto* report = app.add_subcommand("report", "Write runs and searches as a self-contained HTML page");
  report->add_option("FOLDER", arguments.folders, "folders of runs and searches")->required();
  report->add_option("--out", arguments.outputs, "HTML file to write; default: report.html");

  app.add_subcommand("entries", "List the models of this program")->add_flag("--json", arguments.json, "as JSON");

  auto* settings = app.add_subcommand("settings", "List all config keys with their defaults and meanings");
  add_run_options(settings, arguments);

  try {
    std::vector<std::string> reversed = with_options_after_dashes(app, words);
    std::ranges::reverse(reversed);
    app.parse(reversed);
    arguments.command = app.get_subcommands().front()->get_name();
  } catch (const CLI::ParseError& error) {
    std::vector<std::string> known;
    for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
    const bool is_unknown =
        !words.empty() && !words.front().starts_with('-') && std::ranges::find(known, words.front()) == known.end();
    if (is_unknown) {
      const auto nearest = nearest_name(words.front(), known);
      print_to(stderr, "modrun: unknown command \"{}\"{}; --help lists the commands\n", words.front(),
               nearest ? fmt::format(": did you mean {}?", *nearest) : "");
      result.exit_status = 2;
      return result;
    }
    if (error.get_exit_code() == 0) {  // --help, --version
      result.exit_status = app.exit(error);
      return result;
    }
    print_to(stderr, "modrun: {}; --help lists the options\n", error.what());
    result.exit_status = 2;
  }
  return result;
}

}  // namespace modular
