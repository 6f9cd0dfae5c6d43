#include <fmt/format.h>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"

namespace modular {

void export_checkpoint(const Arguments& arguments) {
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

void import_checkpoint(const Arguments& arguments) {
  if (!arguments.base_model.empty() && !is_peft_folder(arguments.source))
    throw ConfigError(
        fmt::format("--base is for PEFT folders, and {} is not one: leave it out", arguments.source.string()));
  import_pretrained(arguments.source, arguments.target, arguments.base_model);
  const ModelConfig model = read_pretrained_config(arguments.source, nullptr, arguments.base_model);
  if (const auto note = model_note(model, arguments.source); !note.empty()) print_result("{}\n", note);
  print_result("imported {} into the checkpoint {}\n", arguments.source.string(), arguments.target.string());
}

}  // namespace modular
