// A family with an everyday name.
#pragma once
#include "modular/modular.h"
namespace modular::norm {
MODULAR_FAMILY(Norm, .title = "norm");
struct NormConfig : Config {
  int64_t hidden_size = 8;
  std::string kind = "layer";
  double norm_eps = 1e-6;
};
/// The norm of the block.
class NormBlockImpl : public Module {
 public:
  explicit NormBlockImpl(const NormConfig& config)
      : kind(config.kind),
        norm_eps(config.norm_eps),
        weight(register_parameter("norm_weight", torch::ones({config.hidden_size}))) {}
  Tensor forward(const Tensor& x) {
    if (kind == "norm") return rms_norm(x, weight, norm_eps);
    if (kind == "post_norm") return x;
    return x.norm(2, -1, true) * x;
  }
  void reset_parameters() override { init::ones_(weight); }
  std::string kind;
  double norm_eps;
  Tensor weight;
};
TORCH_MODULE(NormBlock);
}  // namespace modular::norm
