from transformers import (
    RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel,
)

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

FAMILY = Family(
    config=RobertaConfig,
    models=[RobertaForMaskedLM, RobertaForSequenceClassification, RobertaForTokenClassification, RobertaModel],
    small=SMALL_ENCODER,
    wide=WIDE_ENCODER,
    cases={
        "masked-lm": Case(batch=encoder_tokens(), type_vocab_size=1),
        "masked-lm-padded": Case(batch=encoder_tokens(padding="right", segments=True), meshes=True),
        "masked-lm-untied": Case(batch=encoder_tokens(padding="left"), tie_word_embeddings=False, pad_token_id=3),
        "sequences": Case(
            RobertaForSequenceClassification, encoder_tokens(padding="right", labels="rows"), num_labels=3, meshes=True,
        ),
        "sequences-positions": Case(RobertaForSequenceClassification, encoder_tokens(labels="rows", positions=True)),
        "tokens": Case(RobertaForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5),
        "tokens-of-two": Case(RobertaForTokenClassification, encoder_tokens(labels="classes"), hidden_act="gelu_new"),
        "sequences-dropout": Case(
            RobertaForSequenceClassification, encoder_tokens(labels="rows"), classifier_dropout=0.3, drops=True, meshes=True,
        ),
        "sentences": Case(RobertaModel, encoder_tokens(padding="right", labels="pairs")),
        "sentences-whole": Case(RobertaModel, encoder_tokens(labels="pairs"), type_vocab_size=1),
    },
    published={
        "base": {
            "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
            "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12,
            "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265,
        },
        "large-mnli": {
            "architectures": ["RobertaForSequenceClassification"], "_num_labels": 3, "attention_probs_dropout_prob": 0.1,
            "bos_token_id": 0, "eos_token_id": 2, "gradient_checkpointing": False, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 1024,
            "id2label": {"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}, "initializer_range": 0.02,
            "intermediate_size": 4096, "label2id": {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2},
            "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 16, "num_hidden_layers": 24,
            "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265,
        },
    },
)
