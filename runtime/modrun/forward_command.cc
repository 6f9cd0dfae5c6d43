// Options of `modrun forward`.
#include <CLI/CLI.hpp>

#include "runtime/modrun/commands.h"
#include "runtime/modrun/forward.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/resolved_config.h"

namespace modular {
namespace {

struct ForwardArguments : ConfigArguments {
  std::filesystem::path inputs, outputs;
  bool gradients = false;
};

PreparedCommand prepare_forward(const ForwardArguments& arguments, const Environment& env) {
  const auto config = read_run_config_for(arguments);
  ForwardOptions options{.checkpoint = arguments.checkpoint,
                         .model = config.network,
                         .inputs = arguments.inputs,
                         .outputs = arguments.outputs,
                         .gradients = arguments.gradients,
                         .parallel = config.parallel_options()};
  options.parallel.frozen.clear();  // parameters that a run freezes have gradients here
  options.parallel.trained.reset();
  options.parallel.dropout = false;
  options.parallel.pipeline = {};  // a single micro-batch gains nothing from a schedule
  PreparedCommand command;
  command.mesh = config.parallel.mesh_shape(env.world_size);
  command.options = config.mesh_options();
  command.options.resolved_config = resolved_config(env.world_size, config, {});
  add_files(command.options.resolved_config, "--inputs", {arguments.inputs});
  command.options.resolved_config.emplace_back("--gradients", arguments.gradients ? "true" : "false");
  const auto error = forward_error(options, command.mesh);
  if (!error.empty()) throw ConfigError(error);
  command.note = model_note(config.network, arguments.checkpoint);
  command.run = [options](Mesh& mesh) {
    run_forward(options, mesh);
    return 0;
  };
  return command;
}

}  // namespace

ParsedCommand declare_forward(CLI::App& app) {
  const auto arguments = std::make_shared<ForwardArguments>();
  add_config_options(app, *arguments);
  add_checkpoint_option(app, *arguments);
  app.get_option("--checkpoint")->required();
  app.add_option("--inputs", arguments->inputs, "safetensors file: input_ids, and labels, attention_mask, position_ids")
      ->required();
  app.add_option("--outputs", arguments->outputs, "safetensors file to write")->required();
  app.add_flag("--gradients", arguments->gradients, "also write gradients.<parameter>, of the mean loss");
  return RankCommand([arguments](const Environment& env) { return prepare_forward(*arguments, env); });
}

}  // namespace modular
