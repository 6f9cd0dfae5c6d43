from transformers import GlmConfig, GlmForCausalLM, GlmForSequenceClassification, GlmForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, rope, tokens

FAMILY = Family(
    config=GlmConfig,
    models=[GlmForCausalLM, GlmForSequenceClassification, GlmForTokenClassification],
    small={**SMALL_DECODER, "pad_token_id": 0},
    cases={
        **classifiers(GlmForSequenceClassification, GlmForTokenClassification),
        "plain": Case(meshes=True),
        "no-biases-padded-left": Case(
            attention_bias=False, head_dim=16, batch=tokens(padding="left"), meshes=True, export=True
        ),
        "tied-padded-right": Case(tie_word_embeddings=True, batch=tokens(padding="right"), export=True),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "whole-rotation": Case(**rope("default", partial_rotary_factor=1.0)),
        "rope-linear": Case(**rope("linear", factor=2.0, partial_rotary_factor=0.5), num_key_value_heads=4),
    },
    published={
        "4-9b": {
            "attention_bias": True, "attention_dropout": 0.0, "eos_token_id": [151329, 151336, 151338], "head_dim": 128,
            "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 13696,
            "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 40,
            "num_key_value_heads": 2, "pad_token_id": 151329, "rms_norm_eps": 1.5625e-07, "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.46.0.dev0", "use_cache": True, "vocab_size": 151552,
        },
        "new": {"rope_parameters": {"rope_theta": 5000.0, "partial_rotary_factor": 0.25, "rope_type": "default"}},
    },
)
