// The base of metaclip_2.h: its prefix is in capitals.
#pragma once

#include "modular/modular.h"

namespace modular::clip {
MODULAR_FAMILY(CLIP);

struct CLIPConfig : Config {
  int64_t hidden_size = 8;
};

inline constexpr double CLIP_MAX = 4.0;
inline constexpr double kCLIPFloor = -4.0;

/// CLIP clips what its towers give (clip_limit in modular/clip.h), as CLIPTowerImpl does.
inline Tensor clip_limit(const Tensor& x) { return x.clamp(kCLIPFloor, CLIP_MAX); }

class CLIPTowerImpl : public Module {
 public:
  explicit CLIPTowerImpl(const CLIPConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, true))) {}

  // Here we clip.
  Tensor forward(const Tensor& x) {
    TORCH_CHECK(x.dim() == 2, "CLIP takes matrices; model type clip");
    return clip_limit(proj(x));
  }

  nn::Linear proj;
};
TORCH_MODULE(CLIPTower);

}  // namespace modular::clip
