// Classes that are not modules flatten like those that are; a config may hold another.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  alpha::AlphaPatchConfig patch;
  int64_t image_size = 32;

  void finish() {
    AlphaConfig::finish();
    if (image_size % patch.size != 0) throw ConfigError("image_size must be a multiple of patch.size");
  }
};

class BetaImageProcessor : public alpha::AlphaImageProcessor {
 public:
  explicit BetaImageProcessor(const BetaConfig& config) : AlphaImageProcessor(config), patch(config.patch.size) {}
  virtual ~BetaImageProcessor() = default;

 protected:
  Tensor resized(const Tensor& image) const { return AlphaImageProcessor::resized(image).narrow(-2, 0, size / patch * patch); }

  int64_t patch;
};

using BetaTokenizerSettings = alpha::AlphaTokenizerSettings;

using BetaRange = alpha::AlphaRange;

}  // namespace modular::beta
