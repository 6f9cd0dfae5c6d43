// XLM-RoBERTa (Conneau et al., 2019), as in Hugging Face transformers: RoBERTa trained on multilingual data.
#pragma once

#include "modular/roberta.h"

namespace modular::xlm_roberta {
MODULAR_FAMILY(XLMRoberta, .title = "XLM-RoBERTa", .model_type = "xlm-roberta");

struct XLMRobertaConfig : roberta::RobertaConfig {
  int64_t vocab_size = 30522;
};

using XLMRobertaForMaskedLM MODEL_ENTRY("masked-lm") = roberta::RobertaForMaskedLM;
using XLMRobertaForSequenceClassification MODEL_ENTRY("sequence-classification") =
    roberta::RobertaForSequenceClassification;
using XLMRobertaForTokenClassification MODEL_ENTRY("token-classification") = roberta::RobertaForTokenClassification;
using XLMRobertaForSentenceEmbedding MODEL_ENTRY("sentence-embedding",
                                                 "XLMRobertaModel") = roberta::RobertaForSentenceEmbedding;
using XLMRobertaForSentencePairClassification MODEL_ENTRY("sentence-pair-classification") =
    roberta::RobertaForSentencePairClassification;

}  // namespace modular::xlm_roberta
