#include "runtime/modrun/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/config/config_field.h"
#include "runtime/config/known_devices.h"
#include "runtime/launch/launcher.h"
#include "runtime/mesh/print.h"

namespace modular {

namespace {

/// CLI11's own errors name the largest number that there is.
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

/// --tp 2 is --set parallel.tp=2, and so on.
void add_mesh_options(CLI::App* command, Arguments& arguments) {
  for (const auto& [flag, key] : {std::pair("--pp", "pp"), std::pair("--dp-replicate", "dp_replicate"),
                                  std::pair("--dp-shard", "dp_shard"), std::pair("--tp", "tp")})
    command->add_option_function<std::string>(
        flag,
        [&arguments, key = key](const std::string& size) {
          arguments.settings.push_back(std::string("parallel.") + key + "=" + size);
        },
        std::string("size of the mesh's axis: short for --set parallel.") + key + "=N");
}

void add_trust_option(CLI::App* command, Arguments& arguments) {
  command->add_flag("--trust-folder", arguments.trust_folder,
                    "run the programs and load the libraries that CONFIG names where it is the folder of a run");
}

void add_run_options(CLI::App* command, Arguments& arguments) {
  command->add_option("CONFIG,-c,--config", arguments.config, "TOML file, or the folder of an earlier run");
  command
      ->add_option(
          "--set", arguments.settings,
          "KEY=VALUE: a setting that wins over the file's (`modrun settings` lists them); KEY=VALUE after -- is "
          "the same")
      ->allow_extra_args(false);
  add_trust_option(command, arguments);
  add_mesh_options(command, arguments);
}

void add_checkpoint_option(CLI::App* command, Arguments& arguments) {
  command->add_option("--checkpoint", arguments.checkpoint,
                      "a checkpoint, a folder of checkpoints, a run's folder, or a Hugging Face folder; the run's "
                      "newest when not given");
}

void add_advise_options(CLI::App* command, Arguments& arguments) {
  AdviseArguments& advise = arguments.advise;
  command->add_option("--nodes", advise.nodes, "machines")->capture_default_str();
  command->add_option("--per-node", advise.per_node, "devices of each; those here where they are taken, else 8");
  command->add_option("--device", advise.device,
                      "cpu, or one whose data sheet is known: " + names_of_known_devices() +
                          "; what is here when nothing is said of devices");
  command->add_option("--memory", advise.memory, "what a device holds, e.g. 80GiB; --device's when not given");
  command->add_option("--link", advise.link, "from a device to another one of its machine, one way, e.g. 450GB/s");
  command->add_option("--between", advise.between,
                      "from a device to one of another machine, while all of a machine's do so, e.g. 25GB/s");
  command->add_option("--host", advise.host, "between a device and its host's memory")->capture_default_str();
  command->add_option(
      "--flops", advise.flops,
      "a device's peak, operations per second, e.g. 989e12; metrics.peak_tflops or --device's when not given");
  command->add_option("--attained", advise.attained,
                      "share of that peak which large matmuls reach; 0.5 when not given, 0.8 of a measured peak");
  command->add_option(
      "--memory-speed", advise.memory_speed,
      "of a device's own memory, e.g. 3.35TB/s; --device's when not given, or a byte for each 250 of --flops");
  command->add_option("--reserve", advise.reserve, "share of --memory that libraries and fragments take")
      ->capture_default_str();
  command->add_option("--cost", advise.cost, "of a device and an hour, in any currency");
  command->add_option("--top", advise.top, "meshes to show")->check(kAboveZero)->capture_default_str();
  command->add_flag("--as-is", advise.as_is, "what CONFIG's own mesh and settings would take there, without a search");
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
      "a folder with tokenizer.json or a SentencePiece .model, or such a file; that of --checkpoint when not "
      "given");
  command->add_option("--entry", prepare.entry, "the model that reads the data: short for --set model.entry=NAME");
  command->add_option("--out", prepare.out, "folder to write")->required();
  command->add_option("--text", prepare.texts, "columns with texts, e.g. question,answer; text when not given")
      ->delimiter(',');
  command->add_option("--label", prepare.label, "the column with labels, or of seq2seq with target texts");
  command->add_option("--prompt", prepare.prompt,
                      "causal-lm: the column with what comes before the text and is not learned");
  command
      ->add_option("--prompt-names", prepare.prompt_names,
                   "sentence-embedding: which prompt of config_sentence_transformers.json is put before the texts of "
                   "each column, e.g. query,document; one for all; the default one when not given")
      ->delimiter(',');
  command->add_option("--chat", prepare.chat,
                      "causal-lm: the column with lists of messages, of which the assistant's are learned, in place of "
                      "--text");
  command->add_option("--seq-len", prepare.seq_len, "ids of an example; as many as the longest has when not given")
      ->check(kAboveZero);
  command->add_option("--documents", prepare.documents, "of .txt files: files (one each) or lines")
      ->check(CLI::IsMember({"files", "lines"}))
      ->capture_default_str();
  command->add_option("--jobs", prepare.jobs, "cores to use")->check(kAboveZero)->capture_default_str();
  command->add_option("--shard-size", prepare.shard_bytes, "of sources, for each file that is written, e.g. 8MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(kAboveZero)
      ->capture_default_str();
  command->add_option("--python", prepare.python, "the Python with the package tokenizers")->capture_default_str();
  command->add_option("--set", arguments.settings, "KEY=VALUE: a setting of the model, e.g. model.config.vocab_size")
      ->allow_extra_args(false);
  add_checkpoint_option(command, arguments);
}

/// Help of the program with the launcher's flags, which come before the command and are read before CLI11 sees
/// anything.
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

/// The words with `-- KEY=VALUE …` at their end as `--set KEY=VALUE …`, where the command has settings. Throws
/// ConfigError where one of them is no setting.
std::vector<std::string> with_settings_after_dashes(const CLI::App& app, std::vector<std::string> words) {
  const auto dashes = std::ranges::find(words, "--");
  const auto commands = app.get_subcommands(
      [&](const CLI::App* command) { return !words.empty() && command->get_name() == words.front(); });
  if (dashes == words.end() || commands.empty() || !commands.front()->get_option_no_throw("--set")) return words;
  const std::vector<std::string> settings(dashes + 1, words.end());
  words.erase(dashes, words.end());
  for (const std::string& setting : settings) {
    if (setting.find('=') == std::string::npos)
      throw ConfigError(fmt::format("after -- come settings as KEY=VALUE, but here is \"{}\"", setting));
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
  auto* resume =
      train->add_flag("--resume{yes}", arguments.resume,
                      "continue from the newest checkpoint of train.dir; --resume=auto also begins where there "
                      "is none; --resume=step-00000100 continues from that one");
  train->add_flag("--overwrite", arguments.overwrite, "start again in a folder that holds a run")->excludes(resume);

  auto* eval = app.add_subcommand("eval", "Compute the loss on the held-out files");
  add_run_options(eval, arguments);
  add_checkpoint_option(eval, arguments);

  auto* sample = app.add_subcommand("sample", "Have a model write text");
  add_run_options(sample, arguments);
  add_checkpoint_option(sample, arguments);
  auto* prompts =
      sample->add_option("--prompt", arguments.prompts, "text to continue, once for each; sample.prompt when not given")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  sample
      ->add_option("--prompts", arguments.prompts_file,
                   "file of texts to continue: one a line, or in a .jsonl file {\"prompt\": \"…\"} a line")
      ->excludes(prompts);
  sample->add_flag("--chat", arguments.chat, "the text is a user's message, by the tokenizer's chat template");

  auto* predict = app.add_subcommand("predict", "Write what a model says of the examples of a file");
  add_run_options(predict, arguments);
  add_checkpoint_option(predict, arguments);
  predict->add_option("--inputs", arguments.inputs, "safetensors file of examples, without labels or with")->required();
  predict
      ->add_option("--outputs", arguments.outputs, "safetensors file to write: labels and scores, items or embeddings")
      ->required();
  predict->add_option("--batch-size", arguments.batch_size, "samples of a forward on a rank")
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
                           "of a run with lora.layers: the adapters alone, as PEFT reads them, not merged");
  export_command->add_option("--base", arguments.base_model,
                             "of --adapter: the name or folder of the model that they are added to; of a PEFT folder: "
                             "the folder of its base, in place of the one that it names");
  export_command
      ->add_option("--max-shard-size", arguments.max_shard_bytes, "a larger model becomes several files, e.g. 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();

  auto* import_command = app.add_subcommand("import", "Write a Hugging Face folder as a checkpoint");
  import_command->add_option("FOLDER", arguments.source, "Hugging Face folder, or PEFT folder")->required();
  import_command->add_option("CHECKPOINT", arguments.target, "checkpoint to write")->required();
  import_command->add_option("--base", arguments.base_model,
                             "of a PEFT folder: the folder of its base, in place of the one that it names");

  add_prepare_options(app.add_subcommand("prepare", "Turn texts into data to train on, with a tokenizer"), arguments);

  auto* repartition = app.add_subcommand("repartition", "Write Parquet files again, in other row groups");
  repartition->add_option("FILES", arguments.repartition.files, "Parquet files, and folders of them")->required();
  repartition->add_option("--rows", arguments.repartition.rows, "rows of a row group; a file's last may have fewer")
      ->check(kAboveZero)
      ->capture_default_str();
  repartition->add_option("--out", arguments.repartition.out, "folder to write")->required();

  auto* search = app.add_subcommand("search", "Train a config with other settings in each trial, and find the best");
  search->add_option("CONFIG,-c,--config", arguments.config, "TOML file with [search] and [search.space]")->required();
  search->add_option("--set", arguments.settings, "KEY=VALUE: a setting of all trials, or of the search: search.seed=2")
      ->allow_extra_args(false);
  add_trust_option(search, arguments);
  add_mesh_options(search, arguments);
  search->add_option("--trials", arguments.trials, "at most so many; search.trials when not given")->check(kAboveZero);
  search
      ->add_option(
          "--workers", arguments.workers,
          "trials at a time on this machine, each a job of --nproc-per-node ranks; they share cores and memory, "
          "and each has GPUs of its own")
      ->check(kAboveZero)
      ->capture_default_str();
  search->add_flag("--resume{yes}", arguments.resume, "continue with the study of search.dir");

  auto* plan = app.add_subcommand(
      "plan", "Show how a run is laid over its ranks, and what they will hold and exchange, without starting any");
  add_run_options(plan, arguments);
  plan->add_option("--ranks", arguments.ranks, "number of ranks; those of the launcher's flags when not given")
      ->check(kAboveZero);
  plan->add_option("--format", arguments.format, "text or json")->check(CLI::IsMember({"text", "json"}));

  auto* advise = app.add_subcommand(
      "advise",
      "Rank the meshes of a cluster for a run by the time of a step, of those that fit, without starting any");
  add_run_options(advise, arguments);
  add_advise_options(advise, arguments);

  auto* bench = app.add_subcommand("bench", "Measure strategies of parallelism side by side on this machine");
  add_run_options(bench, arguments);
  bench->add_option("--ranks", arguments.ranks, "ranks of each strategy; 2 when not given")->check(kAboveZero);
  bench
      ->add_option(
          "--strategies", arguments.strategies,
          "of none (one rank), dp (one process, a thread for each replica), ddp, zero1, zero2, fsdp, tp and pp")
      ->delimiter(',');
  bench->add_option("--steps", arguments.steps, "measured steps of each, over all rounds")
      ->check(kAboveZero)
      ->capture_default_str();
  bench->add_option("--rounds", arguments.rounds, "turns that the strategies take")
      ->check(kAboveZero)
      ->capture_default_str();
  bench->add_option("--format", arguments.format, "markdown or json")->check(CLI::IsMember({"markdown", "json"}));

  auto* measure = app.add_subcommand("measure", "Train some steps, leave no run behind, and say what they took");
  add_run_options(measure, arguments);
  measure->add_option("--steps", arguments.steps, "measured steps")->check(kAboveZero)->capture_default_str();
  measure->add_option("--warm-up", arguments.warm_up, "steps before them")->check(kNotNegative)->capture_default_str();
  measure->add_option("--report", arguments.report, "JSON file to write; standard output when not given");

  auto* report =
      app.add_subcommand("report", "Write runs and searches as one HTML file to look at, which needs no network");
  report->add_option("FOLDER", arguments.folders, "folders of runs and of searches")->required();
  report->add_option("--out", arguments.outputs, "HTML file to write; report.html when not given");

  app.add_subcommand("entries", "List the models of this program")->add_flag("--json", arguments.json, "as JSON");

  auto* settings = app.add_subcommand("settings", "List all settings with their defaults and meanings");
  add_run_options(settings, arguments);

  try {
    std::vector<std::string> reversed = with_settings_after_dashes(app, words);
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
      print_to(stderr, "modrun: there is no command \"{}\"{}; --help lists them\n", words.front(),
               nearest ? fmt::format(": did you mean {}?", *nearest) : "");
      result.exit_status = 2;
      return result;
    }
    if (error.get_exit_code() == 0) {  // --help, --version
      result.exit_status = app.exit(error);
      return result;
    }
    print_to(stderr, "modrun: {}; --help lists what can be given\n", error.what());
    result.exit_status = 2;
  }
  return result;
}

}  // namespace modular
