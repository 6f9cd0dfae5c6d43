// Modules that are held otherwise than by a registered holder, and bases whose parameters are not seen.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaPartImpl : public Module {
 public:
  explicit AlphaPartImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) { return proj(x); }
  nn::Linear proj;
};
TORCH_MODULE(AlphaPart);

struct AlphaKeeper {
  AlphaPart part;
};

class AlphaHoldersImpl : public Module {
 public:
  explicit AlphaHoldersImpl(const AlphaConfig& config) : shared(std::make_shared<AlphaPartImpl>(config)) {}
  Tensor forward(const Tensor& x) { return shared->forward(x); }

  std::shared_ptr<AlphaPartImpl> shared;
  AlphaPartImpl* pointer = nullptr;
  std::optional<AlphaPart> perhaps;
  std::vector<AlphaPart> several;
  std::vector<AlphaKeeper> kept;
};
TORCH_MODULE(AlphaHolders);

class AlphaNormImpl : public modular::LayerNormImpl {
 public:
  explicit AlphaNormImpl(const AlphaConfig& config) : LayerNormImpl(config.hidden_size, 1e-5) {}
};
TORCH_MODULE(AlphaNorm);

}  // namespace modular::alpha
