// Module classes without TORCH_MODULE and register_module: both are supplied, also to the specs' own code.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  AlphaProjectionImpl(int64_t in, int64_t out) : proj(linear(in, out, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};  // its holder is supplied before this comment

/// Two of them.
struct AlphaBlockImpl final : Module {
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : first(AlphaProjection(config.hidden_size, config.hidden_size)),
        second(register_module("other", AlphaProjection(config.hidden_size, config.hidden_size))) {}

  Tensor forward(const Tensor& x) { return second(first(x)); }

  AlphaProjection first;
  AlphaProjection second;
};

/// A class that is no module although its name looks like one's.
struct AlphaScaleImpl {
  double factor = 2.0;
};

/// A holder of the author's own.
class AlphaGateImpl : public Module {
 public:
  Tensor forward(const Tensor& x) { return torch::sigmoid(x * scale.factor); }

  AlphaScaleImpl scale;
};
TORCH_MODULE(AlphaGate);

/// The whole.
class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : config(AlphaConfig(config)),
        sizes(std::vector<int64_t>(2, config.hidden_size)),
        block(AlphaBlock(config)),
        blocks(ModuleListOf<AlphaBlock>()) {
    for (int64_t index = 0; index < 2; ++index) blocks->push_back(AlphaBlock(config));
    if (config.hidden_size > 4) gate = AlphaGate();
    const int64_t half = config.hidden_size / 2;
    if (half > 2)
      last = AlphaProjection(config.hidden_size, half);
    else
      last = AlphaBlock(config);
  }

  Outputs forward(const Batch& batch) {
    Outputs outputs;
    Tensor x = block(batch.input_ids);
    for (auto& one : *blocks) x = one(x);
    outputs.loss_sum = last(gate ? gate(x) : x).sum();
    return outputs;
  }

  AlphaConfig config;
  std::vector<int64_t> sizes;
  AlphaBlock block;
  ModuleListOf<AlphaBlock> blocks;
  AlphaGate gate{nullptr};
  OneOf<AlphaProjection, AlphaBlock> last{nullptr};
};

}  // namespace modular::alpha
