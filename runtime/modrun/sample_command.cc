#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/config/run_tokenizer.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/prompts.h"
#include "runtime/modrun/run_config.h"
#include "runtime/modrun/trained_model.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"
#include "runtime/train/sampling.h"
#include "runtime/train/text_ids.h"

namespace modular {
namespace {

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
void show_text(ParallelModel& model, const RunConfig& config, const Prompts& prompts, TextIds& texts, uint64_t seed) {
  ContinuedText text(texts, prompts.ids.front());
  show(prompts.texts.front() + (config.sample.chat ? "\n" : ""));
  sample(model, prompts.ids, config.sample, config.train.seq_len, seed, prompts.ends,
         {.token = [&](size_t, int64_t token) { show(text.add(token)); }});
  show(text.rest() + "\n");
}

/// The same for several prompts: one JSON line per prompt, in order.
void show_lines(ParallelModel& model, const RunConfig& config, const Prompts& prompts, TextIds& texts, uint64_t seed) {
  const auto show_line = [&](size_t index, const std::vector<int64_t>& tokens) {
    ContinuedText text(texts, prompts.ids[index]);
    std::string added;
    for (const int64_t token : tokens) added += text.add(token);
    const nlohmann::ordered_json line = {{"prompt", prompts.texts[index]}, {"text", added + text.rest()}};
    show(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    set_phase(fmt::format("sampling, {} of {} texts done", index + 1, prompts.ids.size()));
  };
  sample(model, prompts.ids, config.sample, config.train.seq_len, seed, prompts.ends, {.text = show_line});
}

}  // namespace

PreparedCommand prepare_sample(const Arguments& arguments, const Environment& env) {
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
  command.options.settings = resolved_config(env.world_size, trained->config, {});
  command.options.settings.emplace_back("the prompts", nlohmann::json(prompts->ids).dump());
  command.note = model_note(config.network, config.model.checkpoint);
  command.run = [trained, tokenizer, prompts](Mesh& mesh) {
    const auto& config = trained->config;
    const auto model = load_model(config, mesh);
    const auto seed = static_cast<uint64_t>(config.train.seed);
    if (mesh.rank() != 0) {
      sample(*model, prompts->ids, config.sample, config.train.seq_len, seed, prompts->ends);
      return 0;
    }
    TextIds texts(tokenizer, config.sample.python);
    (prompts->as_lines ? show_lines : show_text)(*model, config, *prompts, texts, seed);
    return 0;
  };
  return command;
}

}  // namespace modular
