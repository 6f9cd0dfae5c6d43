from transformers import MistralConfig, MistralForCausalLM, MistralForSequenceClassification, MistralForTokenClassification, MistralModel

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, encoder_tokens, tokens

FAMILY = Family(
    config=MistralConfig,
    models=[MistralForCausalLM, MistralForSequenceClassification, MistralForTokenClassification],
    small=SMALL_DECODER,
    cases={
        **classifiers(MistralForSequenceClassification, MistralForTokenClassification),
        "sentences": Case(MistralModel, encoder_tokens(padding="left", labels="pairs"), meshes=True, pooling="mean"),  # a key that states the purpose
        "window": Case(sliding_window=7),
        "window-padded-left": Case(sliding_window=7, batch=tokens(padding="left"), meshes=True),
        "window-padded-right": Case(sliding_window=5, batch=tokens(padding="right")),
        "no-window": Case(sliding_window=None),
        "wide-window": Case(sliding_window=4096),
        "tied": Case(tie_word_embeddings=True, sliding_window=9, export=True),
        "wide-heads": Case(head_dim=16, num_key_value_heads=1, sliding_window=9),
        "rope-yarn": Case(sliding_window=9, **ROPE["yarn"]),
        "sharded": Case(sliding_window=9, max_shard_size="20KB"),
    },
    published={
        "7b-v0.1": {
            "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
            "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0",
            "use_cache": True, "vocab_size": 32000,
        },
        "7b-v0.3": {
            "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
            "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
            "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.42.0.dev0", "use_cache": True, "vocab_size": 32768,
        },
    },
)
