// The base of roberta.h.
#pragma once

#include "modular/modular.h"

namespace modular::bert {
MODULAR_FAMILY(Bert);

struct BertConfig : Config {
  int64_t hidden_size = 8;
};

class BertModelImpl : public Module {
 public:
  explicit BertModelImpl(const BertConfig& config)
      : bert_proj(register_module("bert_proj", linear(config.hidden_size, config.hidden_size, true))) {}

  Tensor forward(const Tensor& x) { return bert_proj(x); }

  nn::Linear bert_proj;
};
TORCH_MODULE(BertModel);

class BertHeadImpl : public Module {
 public:
  explicit BertHeadImpl(const BertConfig& config) {
    bert = register_module("bert", BertModel(config));
    decoder = register_module("decoder", linear(config.hidden_size, config.hidden_size, true));
  }

  Tensor forward(const Tensor& x) { return decoder(bert->forward(x)); }

  BertModel bert{nullptr};
  nn::Linear decoder{nullptr};
};
TORCH_MODULE(BertHead);

class BertPairHeadImpl : public Module {
 public:
  explicit BertPairHeadImpl(const BertConfig& config) : bert(register_module("bert", BertModel(config))) {}

  Tensor forward(const Tensor& x) { return bert(x); }

  BertModel bert;
};
TORCH_MODULE(BertPairHead);

}  // namespace modular::bert
