#include "runtime/parallel/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/model/dropout.h"
#include "runtime/model/tp.h"
#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parameter_table.h"

namespace modular {
namespace {

/// A or B, in a module of its own for the sake of its name.
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

/// What a layer's adapter adds. A layer that is split by its outputs has all of A and a slice of B, and finds a part of
/// A's gradient; one that is split by its inputs has a slice of A and all of B, finds a part of B's gradient, and adds
/// a part of a sum.
class Lora final : public Adapter {
 public:
  Lora(nn::Module& layer, int64_t in, int64_t out, const AdaptedLayer& place, const LoraOptions& options)
      : split_outputs_(place.split_outputs),
        split_inputs_(place.split_inputs),
        scaling_(options.alpha / static_cast<double>(options.rank)),
        a_(layer.register_module("lora_A", std::make_shared<LoraMatrix>(options.rank, in, false))),
        b_(layer.register_module("lora_B", std::make_shared<LoraMatrix>(out, options.rank, true))) {
    if (options.dropout > 0.0) dropout_ = layer.register_module("lora_dropout", nn::Dropout(options.dropout));
  }

  at::Tensor forward(const at::Tensor& x) override {
    const bool drops = dropout_ && dropout_->drops();
    const at::Tensor kept = drops ? detail::drop(*dropout_, x, split_inputs_ ? tp::part() : 0) : x;
    const at::Tensor inner = at::linear(kept, split_outputs_ ? tp::enter(a_->weight) : a_->weight) * scaling_;
    return at::linear(inner, split_inputs_ ? tp::enter(b_->weight) : b_->weight);
  }

 private:
  bool split_outputs_, split_inputs_;
  double scaling_;
  std::shared_ptr<LoraMatrix> a_, b_;
  std::shared_ptr<nn::DropoutImpl> dropout_;  // null: it drops nothing
};

template <class Layer>
void adapt(Layer& layer, const AdaptedLayer& place, const LoraOptions& options) {
  const auto sizes = layer.weight.sizes();
  layer.adapter =
      std::make_shared<Lora>(layer, sizes[place.transposed ? 0 : 1], sizes[place.transposed ? 1 : 0], place, options);
}

void adapt_model(nn::Module& root, const std::vector<AdaptedLayer>& layers, const LoraOptions& options) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  for (const AdaptedLayer& place : layers) {
    nn::Module& layer = *modules[place.name];
    if (place.transposed)
      adapt(*layer.as<TransposedLinearImpl>(), place, options);
    else
      adapt(*layer.as<nn::LinearImpl>(), place, options);
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
std::string beside_weight(std::string_view weight, std::string_view matrix) {
  return fmt::format("{}.{}.weight", weight.substr(0, weight.rfind('.')), matrix);
}

/// All linear layers of a model that runs them as layers, by their paths.
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
      throw ConfigError(fmt::format(
          "lora.layers has a layer of {} whose weight is two at once, {} and {}: an adapter would change one "
          "of them alone, leave it out",
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
    const auto means = [&](const AdaptedLayer& layer) { return is_named(layer.name, pattern, *base.plan); };
    if (std::ranges::any_of(layers, means)) continue;
    std::set<std::string_view> names;
    for (const AdaptedLayer& layer : layers) names.insert(last_component(layer.name));
    throw ConfigError(fmt::format("lora.layers has \"{}\", which is no linear layer of {}: its are called {}", pattern,
                                  base.architecture, fmt::join(names, ", ")));
  }
  for (AdaptedLayer layer : layers) {
    const auto means = [&](const std::string& pattern) { return is_named(layer.name, pattern, *base.plan); };
    if (std::ranges::none_of(options.layers, means)) continue;
    for (const TensorSplit& split : base.plan->tensor_splits) {
      if (!matches(split.parameter, layer.name + ".weight")) continue;
      layer.split_outputs = split.dim == (layer.transposed ? 1 : 0);
      layer.split_inputs = !layer.split_outputs;
      const std::string pattern = beside_weight(split.parameter, layer.split_outputs ? "lora_B" : "lora_A");
      if (std::ranges::find(adapted->names, pattern) == adapted->names.end())
        adapted->plan.tensor_splits.push_back(
            {adapted->names.emplace_back(pattern), layer.split_outputs ? 0 : 1, split.parts});
    }
    adapted->layers.push_back(std::move(layer));
  }
  reject_shared(*model.module, base, adapted->layers);
  for (const AdaptedLayer& layer : adapted->layers)
    for (const std::string& pattern : options.trained)
      if (lies_in(pattern, layer.name + ".weight") || lies_in(pattern, layer.name + ".bias"))
        throw ConfigError(
            fmt::format("lora.trained has \"{}\", which is or has {}, a layer with an adapter: leave it out of one of "
                        "the two",
                        pattern, layer.name));

  adapted->entry = base;
  adapted->entry.plan = &adapted->plan;
  adapted->entry.make = [make = base.make, layers = adapted->layers, options](const AnyConfig& changed) {
    Model made = make(changed);
    adapt_model(*made.module, layers, options);
    return made;
  };
  return adapted;
}

}  // namespace modular
