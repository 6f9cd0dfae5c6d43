from transformers import Phi3Config, Phi3ForCausalLM, Phi3ForSequenceClassification, Phi3ForTokenClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, rope, tokens

FACTORS = dict(short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.0, 5.0])
FAMILY = Family(
    config=Phi3Config,
    models=[Phi3ForCausalLM, Phi3ForSequenceClassification, Phi3ForTokenClassification],
    small={**{key: value for key, value in SMALL_DECODER.items() if key != "head_dim"}, "pad_token_id": 0},
    wide=dict(hidden_size=128, intermediate_size=160),
    cases={
        **classifiers(Phi3ForSequenceClassification, Phi3ForTokenClassification),
        "plain": Case(num_key_value_heads=4, meshes=True),
        "dropout": Case(resid_pdrop=0.2, attention_dropout=0.3, drops=True, meshes=True),
        "window-padded-left": Case(sliding_window=7, batch=tokens(padding="left"), meshes=True, export=True),
        "tied-padded-right": Case(tie_word_embeddings=True, batch=tokens(padding="right"), export=True),
        "longrope-long": Case(
            original_max_position_embeddings=16, **rope("longrope", original_max_position_embeddings=64, **FACTORS)
        ),
        "longrope-short": Case(
            original_max_position_embeddings=32, **rope("longrope", original_max_position_embeddings=16, **FACTORS)
        ),
    },
    published={
        "mini-4k": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0,
            "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
            "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
            "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": None,
            "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.40.2", "use_cache": True, "vocab_size": 32064,
        },
        "mini-128k": {
            "hidden_size": 3072, "max_position_embeddings": 131072, "num_attention_heads": 32, "num_key_value_heads": 32,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {
                "type": "su", "short_factor": [1.05] * 48, "long_factor": [1.0 + i for i in range(48)],
                "original_max_position_embeddings": 4096,
            },
            "rope_theta": 10000.0, "sliding_window": 262144, "vocab_size": 32064,
        },
        "early": {
            "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "yarn", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48},
        },
    },
)
