#include "runtime/parallel/parameters/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/model/dropout.h"
#include "runtime/model/tp.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

/// A or B, in a separate module so that its name is lora_A.weight or lora_B.weight.
class LoraMatrix final : public Module {
 public:
  LoraMatrix(int64_t rows, int64_t columns, bool starts_from_zero)
      : weight(register_parameter("weight", torch::empty({rows, columns}))), starts_from_zero_(starts_from_zero) {}

  void reset_parameters() override {
    if (starts_from_zero_) return init::zeros_(weight);
    init::draw(weight, [](at::IntArrayRef shape) {
      const double limit = 1.0 / std::sqrt(static_cast<double>(shape.at(1)));
      return init::Distribution{init::Distribution::Kind::uniform, -limit, limit};
    });
  }

  at::Tensor weight;

 private:
  bool starts_from_zero_;
};

/// Adapter of a layer. If the layer is sharded along its outputs, a rank has the full A and a slice of B, and computes
/// a partial gradient of A. If it is sharded along its inputs, a rank has a slice of A and the full B, and computes a
/// partial sum of the output and a partial gradient of B.
class Lora final : public Adapter {
 public:
  Lora(nn::Module& layer, int64_t in, int64_t out, const AdaptedLayer& adapted, const LoraOptions& options)
      : split_outputs_(adapted.split_outputs),
        split_inputs_(adapted.split_inputs),
        in_sequence_(adapted.in_sequence),
        scaling_(options.alpha / static_cast<double>(options.rank)),
        a_(layer.register_module("lora_A", std::make_shared<LoraMatrix>(options.rank, in, false))),
        b_(layer.register_module("lora_B", std::make_shared<LoraMatrix>(out, options.rank, true))) {
    if (options.dropout > 0.0) dropout_ = layer.register_module("lora_dropout", nn::Dropout(options.dropout));
  }

  at::Tensor forward(const at::Tensor& x) override {
    const bool drops = dropout_ && dropout_->drops();
    const at::Tensor kept = drops ? drop(x) : x;
    const at::Tensor inner = at::linear(kept, split_outputs_ ? tp::shared(a_->weight) : a_->weight) * scaling_;
    return at::linear(inner, split_inputs_ ? tp::shared(b_->weight) : b_->weight);
  }

 private:
  at::Tensor drop(const at::Tensor& x) const {
    return detail::drop(*dropout_, x, split_inputs_ ? tp::slice_index() : 0,
                        in_sequence_ ? tp::slice_of_positions() : detail::RowSlice());
  }

  bool split_outputs_, split_inputs_, in_sequence_;
  double scaling_;
  std::shared_ptr<LoraMatrix> a_, b_;
  std::shared_ptr<nn::DropoutImpl> dropout_;  // null: no dropout
};

template <class Layer>
void adapt(Layer& layer, const AdaptedLayer& adapted, const LoraOptions& options) {
  const auto sizes = layer.weight.sizes();
  layer.adapter = std::make_shared<Lora>(layer, sizes[adapted.transposed ? 0 : 1], sizes[adapted.transposed ? 1 : 0],
                                         adapted, options);
}

void adapt_model(nn::Module& root, const std::vector<AdaptedLayer>& layers, const LoraOptions& options) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  for (const AdaptedLayer& adapted : layers) {
    nn::Module& layer = *modules[adapted.name];
    if (adapted.transposed)
      adapt(*layer.as<TransposedLinearImpl>(), adapted, options);
    else
      adapt(*layer.as<nn::LinearImpl>(), adapted, options);
  }
}

bool is_named(std::string_view layer, std::string_view pattern, const Plan& plan) {
  if (pattern == "all-linear")
    return std::ranges::any_of(plan.units, [&](std::string_view unit) { return lies_in(unit, layer); });
  for (size_t begin = 0; begin != std::string_view::npos; begin = layer.find('.', begin)) {
    if (begin > 0) ++begin;
    if (lies_in(pattern, layer.substr(begin))) return true;
  }
  return false;
}

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// "model.layers.*.mlp.up_proj.weight" and "lora_B" make "model.layers.*.mlp.up_proj.lora_B.weight".
std::string adapter_pattern(std::string_view weight, std::string_view matrix) {
  return fmt::format("{}.{}.weight", weight.substr(0, weight.rfind('.')), matrix);
}

/// Returns all linear layers that the model calls as modules, with their paths.
std::vector<AdaptedLayer> linear_layers(const nn::Module& root) {
  std::vector<AdaptedLayer> layers;
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const bool transposed = item.value()->as<TransposedLinearImpl>() != nullptr;
    if (transposed || item.value()->as<nn::LinearImpl>()) layers.push_back({item.key(), transposed});
  }
  return layers;
}

void reject_shared(const nn::Module& root, const Entry& entry, const std::vector<AdaptedLayer>& layers) {
  std::unordered_map<const at::TensorImpl*, std::string> owners;
  const auto parameters = root.named_parameters();
  for (const auto& item : parameters) {
    const auto [owner, is_new] = owners.try_emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (is_new) continue;
    const auto belongs_to = [&](const AdaptedLayer& layer) {
      return layer.name + ".weight" == item.key() || layer.name + ".weight" == owner->second;
    };
    if (std::ranges::any_of(layers, belongs_to))
      throw ConfigError(
          fmt::format("lora.layers has a layer of {} whose weight is tied, {} and {}: an adapter would change only one "
                      "of them, so leave the layer out",
                      entry.architecture, owner->second, item.key()));
  }
}

}  // namespace

bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
}

const AdaptedLayer* AdaptedEntry::find_weight(std::string_view parameter) const {
  const auto found = std::ranges::find_if(layers, [&](const AdaptedLayer& layer) {
    return parameter.starts_with(layer.name) && parameter.substr(layer.name.size()) == ".weight";
  });
  return found == layers.end() ? nullptr : &*found;
}

std::shared_ptr<const AdaptedEntry> with_lora(const Entry& base, const AnyConfig& config, const LoraOptions& options) {
  if (!(options.alpha > 0.0 && std::isfinite(options.alpha)))
    throw ConfigError(fmt::format("lora.alpha is {}: it must be a finite number above 0", options.alpha));
  auto adapted = std::make_shared<AdaptedEntry>();
  adapted->base = &base;
  adapted->options = options;
  adapted->plan = *base.plan;

  const Model model = build_on_meta(base, config);
  const std::vector<AdaptedLayer> layers = linear_layers(*model.module);
  for (const std::string& pattern : options.layers) {
    const auto selects = [&](const AdaptedLayer& layer) { return is_named(layer.name, pattern, *base.plan); };
    if (std::ranges::any_of(layers, selects)) continue;
    std::set<std::string_view> names;
    for (const AdaptedLayer& layer : layers) names.insert(last_component(layer.name));
    throw ConfigError(
        fmt::format("lora.layers has \"{}\", which is not a linear layer of {}: its linear layers are called {}",
                    pattern, base.architecture, fmt::join(names, ", ")));
  }
  for (AdaptedLayer layer : layers) {
    const auto selects = [&](const std::string& pattern) { return is_named(layer.name, pattern, *base.plan); };
    if (std::ranges::none_of(options.layers, selects)) continue;
    for (const TensorSplit& split : base.plan->tensor_splits) {
      if (!matches(split.parameter, layer.name + ".weight")) continue;
      layer.split_outputs = split.dim == (layer.transposed ? 1 : 0);
      layer.split_inputs = !layer.split_outputs;
      std::string pattern = adapter_pattern(split.parameter, layer.split_outputs ? "lora_B" : "lora_A");
      auto& splits = adapted->plan.tensor_splits;
      if (std::ranges::find(splits, pattern, &TensorSplit::parameter) == splits.end())
        splits.push_back({std::move(pattern), layer.split_outputs ? 0 : 1, split.parts});
    }
    for (const std::string& marked : base.plan->partial_in_sequence) {
      if (!matches(marked, layer.name + ".weight")) continue;
      layer.in_sequence = true;
      for (const char* matrix : {"lora_A", "lora_B"})
        adapted->plan.partial_in_sequence.push_back(adapter_pattern(layer.name + ".weight", matrix));
    }
    adapted->layers.push_back(std::move(layer));
  }
  reject_shared(*model.module, base, adapted->layers);
  for (const AdaptedLayer& layer : adapted->layers)
    for (const std::string& pattern : options.trained)
      if (lies_in(pattern, layer.name + ".weight") || lies_in(pattern, layer.name + ".bias"))
        throw ConfigError(
            fmt::format("lora.trained has \"{}\", which contains {}, a layer with an adapter: remove it from one of "
                        "lora.trained and lora.layers",
                        pattern, layer.name));

  adapted->entry = base;
  adapted->entry.plan = &adapted->plan;
  adapted->entry.make = [make = base.make, layers = adapted->layers, options](const AnyConfig& changed) {
    Model result = make(changed);
    adapt_model(*result.module, layers, options);
    return result;
  };
  return adapted;
}

}  // namespace modular
