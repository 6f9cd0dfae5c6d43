#include "runtime/checkpoint/peft_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/checkpoint/stored_names.h"

namespace modular {
namespace {

/// PEFT's names of the tasks for which it has a class of its own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPeftTasks = {{
    {"causal-lm", "CAUSAL_LM"},
    {"seq2seq", "SEQ_2_SEQ_LM"},
    {"sequence-classification", "SEQ_CLS"},
    {"token-classification", "TOKEN_CLS"},
    {"sentence-embedding", "FEATURE_EXTRACTION"},
}};

/// Models whose modules have other names in transformers than in the files' tensors, so that PEFT would not find them.
constexpr std::array<std::string_view, 3> kRenamedModels = {"llava", "dinov2", "vit"};

/// Models in which PEFT mistakes layers of these names for fused experts, and drops them.
constexpr std::array<std::string_view, 3> kFusedModels = {"deepseek_v2", "deepseek_v3", "qwen3_moe"};
constexpr std::array<std::string_view, 3> kFusedLayers = {".gate_proj", ".up_proj", ".down_proj"};

}  // namespace

std::string_view to_peft_task(std::string_view task) {
  const auto* const found = std::ranges::find(kPeftTasks, task, &std::pair<std::string_view, std::string_view>::first);
  return found == kPeftTasks.end() ? std::string_view() : found->second;
}

std::string_view task_of_peft(std::string_view peft_task) {
  const auto* const found =
      std::ranges::find(kPeftTasks, peft_task, &std::pair<std::string_view, std::string_view>::second);
  return found == kPeftTasks.end() ? std::string_view() : found->first;
}

std::string peft_names_error(const AdaptedEntry& lora) {
  const std::string_view type = lora.base->model_type;
  if (std::ranges::find(kRenamedModels, type) != kRenamedModels.end())
    return fmt::format(
        "the modules of {} have other names in transformers than in its files, so PEFT would not find them",
        lora.base->architecture);
  if (std::ranges::find(kFusedModels, type) == kFusedModels.end()) return {};
  for (const AdaptedLayer& layer : lora.layers)
    if (std::ranges::any_of(kFusedLayers, [&](std::string_view name) { return layer.name.ends_with(name); }))
      return fmt::format("PEFT mistakes {} of {} for a part of fused experts, and drops its adapter", layer.name,
                         lora.base->architecture);
  return {};
}

std::string to_peft_module(const Entry& entry, const std::string& parameter, const std::vector<int64_t>& shape) {
  const std::vector<StateDictPiece> pieces = state_dict_pieces(entry, parameter, shape);
  const size_t dot = pieces[0].name.rfind('.');
  if (pieces.size() != 1 || pieces[0].parts != 1 || pieces[0].file_shape != shape || dot == std::string::npos)
    return {};
  return pieces[0].name.substr(0, dot);
}

}  // namespace modular
