// mT5 (Xue et al., 2021), as in Hugging Face transformers: multilingual T5, which never scales its decoder's output.
#pragma once

#include "modular/t5.h"

namespace modular::mt5 {
MODULAR_FAMILY(MT5);

struct MT5Config : t5::T5Config {
  int64_t vocab_size = 250112;
  int64_t d_ff = 1024;
  int64_t num_layers = 8;
  int64_t num_heads = 6;
  std::string feed_forward_proj = "gated-gelu";  // "gated-" before the activation if there is a gate
  std::optional<int64_t> decoder_start_token_id = 0;

  void finish() { check(); }

 private:
  using T5Config::scale_decoder_outputs;
};

struct MODEL_ENTRY("seq2seq") FSDP_UNIT MT5ForConditionalGenerationImpl : t5::T5ForConditionalGenerationImpl {
  Tensor scaled(const Tensor& hidden_states) { return hidden_states; }
};

using MT5ForSequenceClassification MODEL_ENTRY("sequence-classification") = t5::T5ForSequenceClassification;
using MT5ForTokenClassification MODEL_ENTRY("token-classification") = t5::T5ForTokenClassification;
using MT5ForSentenceEmbedding MODEL_ENTRY("sentence-embedding", "MT5EncoderModel") = t5::T5ForSentenceEmbedding;

}  // namespace modular::mt5
