// Two base families in one spec: what each reaches takes the prefix of the class that pulls it in. Functions of one name are one copy where
// their text is the same, and told apart by prefix where it is not.
#pragma once

#include "modular/textual.h"
#include "modular/visual.h"

namespace modular::pair {
MODULAR_FAMILY(Pair);

struct PairConfig : Config {
  int64_t vision_size = 4;
  int64_t text_size = 6;
};

struct PairVisionConfig : visual::VisualConfig {
  double factor = 4.0;
};

class PairVisionEncoderImpl : public visual::VisualEncoderImpl {
 public:
  using VisualEncoderImpl::VisualEncoderImpl;

  Tensor forward(const Tensor& x) { return VisualEncoderImpl::forward(x) * 2.0; }
};
TORCH_MODULE(PairVisionEncoder);

using PairTextModel = textual::TextualModel;

class PairModelImpl : public Module {
 public:
  PairModelImpl(const PairVisionConfig& vision, const textual::TextualConfig& text)
      : encoder(register_module("encoder", PairVisionEncoder(vision))), model(register_module("model", PairTextModel(text))) {}

  Tensor forward(const Tensor& image, const Tensor& text) { return encoder(image) + model(text); }

  PairVisionEncoder encoder;
  PairTextModel model;
};
TORCH_MODULE(PairModel);

}  // namespace modular::pair
