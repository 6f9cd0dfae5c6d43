// A family without a map keeps the names of the one that it inherits from: `roberta`.
#pragma once

#include "modular/roberta.h"

namespace modular::xlm_roberta {
MODULAR_FAMILY(XLMRoberta);

class XLMRobertaHeadImpl : public roberta::RobertaHeadImpl {
 public:
  using RobertaHeadImpl::RobertaHeadImpl;

  bert::BertModel bert{nullptr};  // redeclared, and still called roberta
};
TORCH_MODULE(XLMRobertaHead);

}  // namespace modular::xlm_roberta
