// Messages that name fields, which beta.h renames.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t heads = 2;

  void finish() {
    if (hidden_size % heads != 0) throw ConfigError("hidden_size isn't a multiple of heads: Alpha's heads need that");
  }
};

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config) : heads(config.heads) {
    TORCH_CHECK(heads > 0, "heads must be at least 1");
  }

  Tensor forward(const Tensor& x) { return x * static_cast<double>(heads); }

  int64_t heads;
};
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
