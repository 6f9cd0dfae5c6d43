// Low-rank adaptation (Hu et al., LoRA): the weights of some linear layers are frozen, and a trained product of two
// small matrices is added to each. Layer selection and parameter names follow Hugging Face's PEFT.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// An adapted layer computes x Wᵀ + alpha / rank · dropout(x) Aᵀ Bᵀ, with A [rank, in] and B [out, rank].
struct LoraOptions {
  // Linear layers to adapt: paths in the module tree, or parts of paths such as "self_attn.q_proj" or "mlp", in which
  // "*" matches any one component and which include all layers below them; or "all-linear" for the layers in the plan's
  // units. Empty: none.
  std::vector<std::string> layers;
  int64_t rank = 8;
  double alpha = 16.0;
  double dropout = 0.0;
  std::vector<std::string> trained;  // paths of modules that are also trained, e.g. a new head

  bool operator==(const LoraOptions&) const = default;
};

/// A linear layer with an adapter.
struct AdaptedLayer {
  std::string name;            // path in the module tree
  bool transposed = false;     // weight is [in, out]
  bool split_outputs = false;  // sharded over tp along the outputs, according to the plan
  bool split_inputs = false;
  bool in_sequence = false;  // with sequence parallelism, applied to each rank's positions

  std::string a() const { return name + ".lora_A.weight"; }  // [rank, in]
  std::string b() const { return name + ".lora_B.weight"; }  // [out, rank]
};

/// An entry whose models have adapters, with its base entry.
struct AdaptedEntry {
  const Entry* base = nullptr;
  LoraOptions options;
  std::vector<AdaptedLayer> layers;  // in the order of the module tree
  Plan plan;
  Entry entry;  // same name and task as the base

  AdaptedEntry() = default;
  AdaptedEntry(const AdaptedEntry&) = delete;
  AdaptedEntry& operator=(const AdaptedEntry&) = delete;

  double scaling() const { return options.alpha / static_cast<double>(options.rank); }
  /// Returns the adapted layer whose weight is `parameter`; null if there is none.
  const AdaptedLayer* find_weight(std::string_view parameter) const;
};

/// Adds adapters to the layers of `base` that `options` names. B starts at 0, A is sampled from PEFT's uniform
/// distribution. Throws ConfigError if a name matches no layer, or a layer's weight is tied.
std::shared_ptr<const AdaptedEntry> with_lora(const Entry& base, const AnyConfig& config, const LoraOptions& options);

/// Whether the parameter belongs to an adapter.
bool is_adapter(std::string_view parameter);

}  // namespace modular
