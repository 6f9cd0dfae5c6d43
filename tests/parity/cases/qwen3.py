from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification, Qwen3ForTokenClassification, Qwen3Model

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, encoder_tokens, tokens

WINDOW = dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)

FAMILY = Family(
    config=Qwen3Config,
    models=[Qwen3ForCausalLM, Qwen3ForSequenceClassification, Qwen3ForTokenClassification],
    small=SMALL_DECODER,
    cases={
        **classifiers(Qwen3ForSequenceClassification, Qwen3ForTokenClassification),
        "sentences": Case(Qwen3Model, encoder_tokens(padding="right", labels="pairs"), meshes=True, pooling="mean"),  # a key that states the purpose
        "plain": Case(meshes=True),
        "biases": Case(attention_bias=True, head_dim=16, meshes=True, export=True),
        "window-padded-left": Case(batch=tokens(padding="left"), meshes=True, **WINDOW),
        "tied-padded-right": Case(tie_word_embeddings=True, batch=tokens(padding="right"), export=True),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "rope-yarn": Case(**ROPE["yarn"]),
    },
    published={
        "0.6b": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
            "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
            "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
            "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
            "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
            "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False,
            "vocab_size": 151936,
        },
        "with-yarn": {
            "hidden_size": 4096, "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096,
            "use_sliding_window": True, "max_window_layers": 36,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            "rope_theta": 1000000,
        },
    },
)
