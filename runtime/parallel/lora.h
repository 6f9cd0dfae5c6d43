// Low-rank adaptation (Hu et al., LoRA): the weights of some linear layers stay, and what is trained is a product of
// two small matrices that is added to each. Layers and names are those of Hugging Face's PEFT.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// An adapted layer's product is x Wᵀ + alpha / rank · dropout(x) Aᵀ Bᵀ, with A [rank, in] and B [out, rank].
struct LoraOptions {
  // Which linear layers: paths in the module tree, or parts of them as "self_attn.q_proj" or "mlp", in which "*" is any
  // one component and which mean all below them; or "all-linear", those in the plan's units. Empty: none.
  std::vector<std::string> layers;
  int64_t rank = 8;
  double alpha = 16.0;
  double dropout = 0.0;
  std::vector<std::string> trained;  // paths of what is trained as well, as a new head

  bool operator==(const LoraOptions&) const = default;
};

/// A linear layer with an adapter.
struct AdaptedLayer {
  std::string name;            // path in the module tree
  bool transposed = false;     // its weight is [in, out]
  bool split_outputs = false;  // over tp, as the plan says of its weight
  bool split_inputs = false;

  std::string a() const { return name + ".lora_A.weight"; }  // [rank, in]
  std::string b() const { return name + ".lora_B.weight"; }  // [out, rank]
};

/// An entry whose models have adapters, and what it is made of.
struct AdaptedEntry {
  const Entry* base = nullptr;
  LoraOptions options;
  std::vector<AdaptedLayer> layers;  // in the order of the module tree
  Plan plan;
  std::deque<std::string> names;  // that the plan refers to
  Entry entry;                    // of the same name and task

  AdaptedEntry() = default;
  AdaptedEntry(const AdaptedEntry&) = delete;
  AdaptedEntry& operator=(const AdaptedEntry&) = delete;

  double scaling() const { return options.alpha / static_cast<double>(options.rank); }
  /// The layer of which `parameter` is the weight; null where it is none's.
  const AdaptedLayer* find_weight(std::string_view parameter) const;
};

/// Gives adapters to the layers of `base` that `options` names. B starts from 0, A from the uniform distribution of
/// PEFT. Throws ConfigError where a name is no layer's, or a layer's weight is also another's.
std::shared_ptr<const AdaptedEntry> with_lora(const Entry& base, const AnyConfig& config, const LoraOptions& options);

/// Whether a parameter of that name is an adapter's.
bool is_adapter(std::string_view parameter);

}  // namespace modular
