from transformers import (
    XLMRobertaConfig, XLMRobertaForMaskedLM, XLMRobertaForSequenceClassification, XLMRobertaForTokenClassification,
    XLMRobertaModel,
)

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

FAMILY = Family(
    config=XLMRobertaConfig,
    models=[
        XLMRobertaForMaskedLM, XLMRobertaForSequenceClassification, XLMRobertaForTokenClassification, XLMRobertaModel,
    ],
    small=SMALL_ENCODER,
    wide=WIDE_ENCODER,
    cases={
        "masked-lm": Case(batch=encoder_tokens(padding="right"), type_vocab_size=1),
        "masked-lm-untied": Case(batch=encoder_tokens(), tie_word_embeddings=False, layer_norm_eps=1e-3),
        "sequences": Case(
            XLMRobertaForSequenceClassification, encoder_tokens(padding="left", labels="rows"), num_labels=3, meshes=True,
        ),
        "sequences-of-two": Case(XLMRobertaForSequenceClassification, encoder_tokens(labels="rows")),
        "tokens": Case(XLMRobertaForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5),
        "tokens-of-two": Case(XLMRobertaForTokenClassification, encoder_tokens(labels="classes"), type_vocab_size=1),
        "sentences": Case(XLMRobertaModel, encoder_tokens(padding="right", labels="pairs"), type_vocab_size=1),
        "sentences-whole": Case(XLMRobertaModel, encoder_tokens(labels="pairs")),
    },
    published={
        "base": {
            "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
            "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "model_type": "xlm-roberta",
            "num_attention_heads": 12, "num_hidden_layers": 12, "output_past": True, "pad_token_id": 1,
            "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0", "type_vocab_size": 1,
            "use_cache": True, "vocab_size": 250002,
        },
    },
)
