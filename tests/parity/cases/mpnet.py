from transformers import MPNetConfig, MPNetForMaskedLM, MPNetForSequenceClassification, MPNetForTokenClassification, MPNetModel

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

FAMILY = Family(
    config=MPNetConfig,
    models=[MPNetForMaskedLM, MPNetForSequenceClassification, MPNetForTokenClassification, MPNetModel],
    small=SMALL_ENCODER,
    wide=WIDE_ENCODER,
    rounds_elsewhere=True,  # the position bias is part of the mask
    cases={
        "sentences": Case(MPNetModel, encoder_tokens(padding="right", labels="pairs")),
        "sentences-whole": Case(MPNetModel, encoder_tokens(labels="pairs")),
        "masked-lm": Case(MPNetForMaskedLM, encoder_tokens(padding="right"), meshes=True),
        "masked-lm-dropout": Case(
            MPNetForMaskedLM, encoder_tokens(padding="right"), hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, drops=True,
            meshes=True,
        ),
        "masked-lm-untied": Case(MPNetForMaskedLM, encoder_tokens(), tie_word_embeddings=False),
        "sequences": Case(
            MPNetForSequenceClassification, encoder_tokens(padding="left", labels="rows"), num_labels=3, meshes=True,
        ),
        "sequences-positions": Case(MPNetForSequenceClassification, encoder_tokens(labels="rows", positions=True)),
        "tokens": Case(MPNetForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5),
        "tokens-of-two": Case(
            MPNetForTokenClassification, encoder_tokens(labels="classes"), relative_attention_num_buckets=40,
        ),
        "sequences-dropout": Case(MPNetForSequenceClassification, encoder_tokens(labels="rows"), drops=True),
    },
    published={
        "base": {
            "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
            "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12, "num_hidden_layers": 12,
            "pad_token_id": 1, "relative_attention_num_buckets": 32, "vocab_size": 30527,
        },
    },
)
