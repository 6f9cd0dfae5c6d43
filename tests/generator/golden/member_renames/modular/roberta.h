// Inherited members, and so names in the state dict, are renamed by a declared map: `bert` is `roberta` here, but for one class. Code of this
// spec calls an inherited member by its inherited name.
#pragma once

#include "modular/bert.h"

namespace modular::roberta {
MODULAR_FAMILY(Roberta, .members = {{"bert", "roberta"}, {"BertPairHead::bert", "bert"}, {"decoder", "lm_decoder"}});

class RobertaHeadImpl : public bert::BertHeadImpl {
 public:
  explicit RobertaHeadImpl(const bert::BertConfig& config) : BertHeadImpl(config) {
    decoder = register_module("decoder", linear(config.hidden_size, config.hidden_size, false));
  }

  Tensor forward(const Tensor& x) { return BertHeadImpl::forward(x) + bert(x); }
};
TORCH_MODULE(RobertaHead);

using RobertaPairHead = bert::BertPairHead;

}  // namespace modular::roberta
