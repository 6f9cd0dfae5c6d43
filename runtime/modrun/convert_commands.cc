// `modrun export` and `modrun import`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"

namespace modular {
namespace {

struct ExportArguments {
  std::filesystem::path source, target;
  std::string dtype = "float32";
  bool adapter = false;
  std::string base_model;  // of --adapter, and of PEFT folders
  uint64_t max_shard_bytes = uint64_t{5} << 30;
};

struct ImportArguments {
  std::filesystem::path source, target;
  std::string base_model;
};

void export_checkpoint(const ExportArguments& arguments) {
  const bool is_peft = is_peft_folder(arguments.source);
  const auto checkpoint = is_peft ? arguments.source : find_checkpoint(arguments.source);
  if (checkpoint.empty())
    throw ConfigError(
        fmt::format("{} holds no checkpoint: name one, e.g. runs/demo/checkpoints", arguments.source.string()));
  if (is_peft && arguments.adapter)
    throw ConfigError(
        fmt::format("{} is already a PEFT folder: leave --adapter out to merge its adapters into the base",
                    arguments.source.string()));
  if (arguments.adapter) {
    if (arguments.dtype != "float32")
      throw ConfigError(
          fmt::format("--dtype is {}, and adapters are written as float32: leave it out", arguments.dtype));
    if (arguments.base_model.empty())
      throw ConfigError("--adapter needs --base MODEL, the folder or name of the model that the adapters are added to");
    export_adapters(checkpoint, arguments.target, arguments.base_model);
    print_result("exported the adapters of {} to the PEFT folder {}\n", checkpoint.string(), arguments.target.string());
    return;
  }
  if (!arguments.base_model.empty() && !is_peft)
    throw ConfigError("--base is for --adapter, and for PEFT folders: leave it out");
  ExportOptions options;
  if (arguments.dtype == "bfloat16") options.dtype = at::kBFloat16;
  if (arguments.dtype == "float16") options.dtype = at::kHalf;
  options.max_shard_bytes = static_cast<int64_t>(arguments.max_shard_bytes);
  export_pretrained(checkpoint, arguments.target, options, arguments.base_model);
  print_result("exported {} to the Hugging Face folder {}\n", checkpoint.string(), arguments.target.string());
}

void import_checkpoint(const ImportArguments& arguments) {
  if (!arguments.base_model.empty() && !is_peft_folder(arguments.source))
    throw ConfigError(
        fmt::format("--base is for PEFT folders, and {} is not one: leave it out", arguments.source.string()));
  import_pretrained(arguments.source, arguments.target, arguments.base_model);
  const ModelConfig model = read_pretrained_config(arguments.source, nullptr, arguments.base_model);
  if (const auto note = model_note(model, arguments.source); !note.empty()) print_result("{}\n", note);
  print_result("imported {} into the checkpoint {}\n", arguments.source.string(), arguments.target.string());
}

}  // namespace

ParsedCommand declare_export(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  app.add_option("CHECKPOINT", arguments->source,
                 "a checkpoint, a folder of checkpoints, a run's folder, or a PEFT folder, which is merged into its "
                 "base")
      ->required();
  app.add_option("FOLDER", arguments->target, "Hugging Face folder to write")->required();
  app.add_option("--dtype", arguments->dtype, "float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_flag("--adapter", arguments->adapter,
               "for a run with lora.layers: write the adapters only, in PEFT's format, without merging");
  app.add_option("--base", arguments->base_model,
                 "with --adapter: name or folder of the model that the adapters are for; for a PEFT folder: folder of "
                 "its base model, instead of the one that it names");
  app.add_option("--max-shard-size", arguments->max_shard_bytes, "split larger models into several files, e.g. 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return export_checkpoint(*arguments), 0; });
}

ParsedCommand declare_import(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option("FOLDER", arguments->source, "Hugging Face folder, or PEFT folder")->required();
  app.add_option("CHECKPOINT", arguments->target, "checkpoint to write")->required();
  app.add_option("--base", arguments->base_model,
                 "for a PEFT folder: folder of its base model, instead of the one that it names");
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return import_checkpoint(*arguments), 0; });
}

}  // namespace modular
