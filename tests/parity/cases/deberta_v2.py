from transformers import (
    DebertaV2Config, DebertaV2ForMaskedLM, DebertaV2ForSequenceClassification, DebertaV2ForTokenClassification, DebertaV2Model,
)

from oracle import SMALL_ENCODER, WIDE_ENCODER, Case, Family, encoder_tokens

# What the published models of both versions have.
RELATIVE = dict(
    relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True,
    position_biased_input=False,
)
# Dropout of position embeddings is not compared: the original drops the same elements for each row of the batch.
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

FAMILY = Family(
    config=DebertaV2Config,
    models=[DebertaV2ForMaskedLM, DebertaV2ForSequenceClassification, DebertaV2ForTokenClassification, DebertaV2Model],
    small=SMALL_ENCODER,
    wide={**WIDE_ENCODER, **RELATIVE},
    rounds_elsewhere=True,  # scores are added in float32 here
    cases={
        "masked-lm": Case(batch=encoder_tokens(), **RELATIVE),
        "masked-lm-padded": Case(batch=encoder_tokens(padding="right"), **RELATIVE, meshes=True),
        "masked-lm-own-projections": Case(
            batch=encoder_tokens(padding="left", segments=True), **{**RELATIVE, "share_att_key": False, "position_biased_input": True},
            type_vocab_size=2, tie_word_embeddings=False, meshes=True, export=True,
        ),
        "masked-lm-absolute": Case(batch=encoder_tokens(padding="right", positions=True), hidden_act="gelu_new", meshes=True),
        "masked-lm-content-to-position": Case(
            batch=encoder_tokens(), **{**RELATIVE, "pos_att_type": ["c2p"], "position_buckets": -1}, max_relative_positions=9, meshes=True
        ),
        "masked-lm-position-to-content": Case(
            batch=encoder_tokens(padding="right"), **{**RELATIVE, "pos_att_type": ["p2c"], "norm_rel_ebd": "none", "share_att_key": False},
            meshes=True,
        ),
        "masked-lm-dropout": Case(
            batch=encoder_tokens(padding="right"), **RELATIVE, **{**NO_DROPOUT, "attention_probs_dropout_prob": 0.25}, drops=True, meshes=True,
        ),
        "sequences": Case(
            DebertaV2ForSequenceClassification, encoder_tokens(padding="right", labels="rows"), **RELATIVE, num_labels=3, meshes=True
        ),
        "two-numbers": Case(
            DebertaV2ForSequenceClassification, encoder_tokens(labels="numbers"), **RELATIVE, num_labels=2, problem_type="regression",
            pooler_hidden_act="relu",
        ),
        "sequences-dropout": Case(
            DebertaV2ForSequenceClassification, encoder_tokens(labels="rows"), **RELATIVE, **NO_DROPOUT, pooler_dropout=0.3, cls_dropout=0.2,
            drops=True,
        ),
        "tokens": Case(
            DebertaV2ForTokenClassification, encoder_tokens(padding="right", labels="classes"), **RELATIVE, num_labels=5, meshes=True
        ),
        "sentences": Case(DebertaV2Model, encoder_tokens(padding="right", labels="pairs"), **RELATIVE),
        "sentences-whole": Case(DebertaV2Model, encoder_tokens(labels="pairs"), **RELATIVE),
    },
    published={
        "v3-base": {
            "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
            "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-07, "max_position_embeddings": 512,
            "max_relative_positions": -1, "norm_rel_ebd": "layer_norm", "num_attention_heads": 12, "num_hidden_layers": 12,
            "pos_att_type": "p2c|c2p", "position_biased_input": False, "position_buckets": 256, "relative_attention": True,
            "share_att_key": True, "type_vocab_size": 0, "vocab_size": 128100,
        },
        "v3-base-of-today": {
            "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
            "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-07, "legacy": True,
            "max_position_embeddings": 512, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm", "num_attention_heads": 12,
            "num_hidden_layers": 12, "pad_token_id": 0, "pooler_dropout": 0, "pooler_hidden_act": "gelu", "pooler_hidden_size": 768,
            "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "position_buckets": 256, "relative_attention": True,
            "share_att_key": True, "type_vocab_size": 0, "vocab_size": 128100,
        },
    },
)
