// `modrun sample`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/json_text.h"
#include "runtime/config/run_tokenizer.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/sampling.h"
#include "runtime/train/text_ids.h"

namespace modular {
namespace {

struct SampleArguments : ConfigArguments {
  std::vector<std::string> prompts;
  std::filesystem::path prompts_file;
  bool chat = false;
};

std::string read_prompt(const std::string& line, const std::string& location) {
  const nlohmann::json value = parse_json(line);
  if (value.is_discarded()) throw ConfigError(fmt::format("{}: {}", location, json_problem(std::string_view(line))));
  if (!value.is_object() || !value.contains("prompt") || !value["prompt"].is_string())
    throw ConfigError(
        fmt::format("{}: {} has no text at \"prompt\": write {{\"prompt\": \"…\"}}", location, shown(value)));
  return value["prompt"].get<std::string>();
}

/// The prompts in `path`: its lines or, in a .jsonl file, each line's "prompt". Throws ConfigError with the line of an
/// invalid prompt, or if there are no prompts.
std::vector<std::string> read_prompts(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw ConfigError(fmt::format("--prompts {} is not a file: name one with one text per line", path.string()));
  LineReader lines(path, Links::followed);
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; lines.next(line);) {
    const std::string location = fmt::format("{}:{}", path.string(), ++number);
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back(path.extension() == ".jsonl" ? read_prompt(line, location) : line);
    if (prompts.back().empty())
      throw ConfigError(fmt::format("{}: there is no text to continue: write one, or leave the line out", location));
  }
  if (prompts.empty())
    throw ConfigError(fmt::format("--prompts {} is empty: write one text to continue per line", path.string()));
  return prompts;
}

/// Prompts as text and as ids.
struct Prompts {
  std::vector<std::string> texts;
  std::vector<std::vector<int64_t>> ids;
  std::vector<int64_t> ends;
  bool as_lines = false;  // results are JSON lines
};

void show(const std::string& text) {
  print_data(text);
  std::fflush(stdout);
}

/// Rank 0's part for one prompt: prints the text as it is generated.
void show_text(ParallelModel& model, const SampleSection& options, const TrainSection& train, const Prompts& prompts,
               TextIds& texts) {
  ContinuedText text(texts, prompts.ids.front());
  show(prompts.texts.front() + (options.chat ? "\n" : ""));
  sample(model, prompts.ids, options, train.seq_len, static_cast<uint64_t>(train.seed), prompts.ends,
         {.token = [&](size_t, int64_t token) { show(text.add(token)); }});
  show(text.rest() + "\n");
}

/// The same for several prompts: one JSON line per prompt, in order.
void show_lines(ParallelModel& model, const SampleSection& options, const TrainSection& train, const Prompts& prompts,
                TextIds& texts) {
  const auto show_line = [&](size_t index, const std::vector<int64_t>& tokens) {
    ContinuedText text(texts, prompts.ids[index]);
    std::string added;
    for (const int64_t token : tokens) added += text.add(token);
    const nlohmann::ordered_json line = {{"prompt", prompts.texts[index]}, {"text", added + text.rest()}};
    show(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    set_phase(fmt::format("sampling, {} of {} texts done", index + 1, prompts.ids.size()));
  };
  sample(model, prompts.ids, options, train.seq_len, static_cast<uint64_t>(train.seed), prompts.ends,
         {.text = show_line});
}

PreparedCommand prepare_sample(const SampleArguments& arguments, const Environment& env) {
  const auto trained = std::make_shared<TrainedModel>(prepare_model(arguments, env.world_size));
  auto& config = trained->config;
  check_reading(config);
  const auto prompts = std::make_shared<Prompts>();
  prompts->texts = arguments.prompts_file.empty() ? arguments.prompts : read_prompts(arguments.prompts_file);
  prompts->as_lines = !arguments.prompts_file.empty() || prompts->texts.size() > 1;
  if (prompts->texts.empty()) prompts->texts = {config.sample.prompt};
  if (arguments.chat) config.sample.chat = true;
  for (const std::string& text : prompts->texts)
    if (text.empty()) throw ConfigError("there is no text to continue: give --prompt TEXT");
  config.sample.prompt = prompts->texts.front();
  check_sampling(config);
  const std::filesystem::path tokenizer = tokenizer_of_trained(config);
  if (tokenizer.empty() && !config.reads(&DataFormat::ids_are_bytes))
    throw ConfigError(
        fmt::format("data.format is \"{}\", and there is no tokenizer to write text with: name its folder with --set "
                    "model.tokenizer=FOLDER",
                    config.data_formats().front()));
  TextIds ids(tokenizer, config.sample.python);
  for (const std::string& text : prompts->texts) prompts->ids.push_back(ids.prompt(text, config.sample.chat));
  prompts->ends = ids.ends();

  PreparedCommand command;
  command.mesh = trained->mesh;
  command.options = trained->config.mesh_options();
  command.options.resolved_config = resolved_config(env.world_size, trained->config, {});
  command.options.resolved_config.emplace_back("the prompts", nlohmann::json(prompts->ids).dump());
  command.note = model_note(config.network, config.model.checkpoint);
  command.run = [trained, tokenizer, prompts](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    if (mesh.rank() != 0) {
      sample(*model, prompts->ids, config.sample, config.train.seq_len, static_cast<uint64_t>(config.train.seed),
             prompts->ends);
      return 0;
    }
    TextIds texts(tokenizer, config.sample.python);
    (prompts->as_lines ? show_lines : show_text)(*model, config.sample, config.train, *prompts, texts);
    return 0;
  };
  return command;
}

}  // namespace

ParsedCommand declare_sample(CLI::App& app) {
  const auto arguments = std::make_shared<SampleArguments>();
  add_config_options(app, *arguments);
  add_checkpoint_option(app, *arguments);
  auto* const prompts =
      app.add_option("--prompt", arguments->prompts, "text to continue, may be repeated; default: sample.prompt")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--prompts", arguments->prompts_file,
                 "file of texts to continue: one per line, or in a .jsonl file {\"prompt\": \"…\"} per line")
      ->excludes(prompts);
  app.add_flag("--chat", arguments->chat, "format the text as a user message with the tokenizer's chat template");
  return RankCommand([arguments](const Environment& env) { return prepare_sample(*arguments, env); });
}

}  // namespace modular
