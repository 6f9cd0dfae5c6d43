from transformers import (
    ModernBertConfig, ModernBertForMaskedLM, ModernBertForSequenceClassification, ModernBertForTokenClassification,
    ModernBertModel,
)

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

SMALL = dict(
    **SMALL_ENCODER, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, local_attention=8
)

FAMILY = Family(
    config=ModernBertConfig,
    models=[
        ModernBertForMaskedLM, ModernBertForSequenceClassification, ModernBertForTokenClassification, ModernBertModel,
    ],
    small=SMALL,
    wide=WIDE_ENCODER,
    rounds_elsewhere=True,  # the fused rotation rounds once, like the original; the plain one rounds each product
    cases={
        "masked-lm": Case(batch=encoder_tokens()),
        "masked-lm-padded": Case(
            batch=encoder_tokens(padding="right"), norm_bias=True, attention_bias=True, mlp_bias=True, meshes=True,
        ),
        "masked-lm-dropout": Case(
            batch=encoder_tokens(padding="right"), attention_dropout=0.2, embedding_dropout=0.1, mlp_dropout=0.3, drops=True, meshes=True,
        ),
        "masked-lm-untied": Case(
            batch=encoder_tokens(padding="left"), tie_word_embeddings=False, decoder_bias=False, classifier_bias=True,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"], meshes=True,
        ),
        "sequences": Case(
            ModernBertForSequenceClassification, encoder_tokens(padding="right", labels="rows"), num_labels=3,
        ),
        "sequences-by-mean": Case(
            ModernBertForSequenceClassification, encoder_tokens(padding="right", labels="rows"),
            classifier_pooling="mean", meshes=True,
        ),
        "tokens": Case(
            ModernBertForTokenClassification, encoder_tokens(padding="right", labels="classes"), num_labels=5,
        ),
        "tokens-positions": Case(ModernBertForTokenClassification, encoder_tokens(labels="classes", positions=True)),
        "sentences": Case(ModernBertModel, encoder_tokens(padding="right", labels="pairs")),
        "sentences-whole": Case(ModernBertModel, encoder_tokens(labels="pairs"), hidden_activation="silu"),
        "sequences-dropout": Case(
            ModernBertForSequenceClassification, encoder_tokens(labels="rows"), classifier_dropout=0.3, drops=True,
        ),
    },
    published={
        "base": {
            "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0,
            "bos_token_id": 50281, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
            "classifier_pooling": "mean", "cls_token_id": 50281, "decoder_bias": True, "deterministic_flash_attn": False,
            "embedding_dropout": 0.0, "eos_token_id": 50282, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
            "gradient_checkpointing": False, "hidden_activation": "gelu", "hidden_size": 768,
            "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 1152, "layer_norm_eps": 1e-05,
            "local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False,
            "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 12,
            "num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute", "sep_token_id": 50282,
            "tie_word_embeddings": True, "torch_dtype": "float32", "transformers_version": "4.47.0.dev0",
            "vocab_size": 50368,
        },
    },
)
