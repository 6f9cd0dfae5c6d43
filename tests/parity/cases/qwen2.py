from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification, Qwen2ForTokenClassification, Qwen2Model

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, encoder_tokens, tokens

WINDOW = dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)

FAMILY = Family(
    config=Qwen2Config,
    models=[Qwen2ForCausalLM, Qwen2ForSequenceClassification, Qwen2ForTokenClassification],
    small=SMALL_DECODER,
    cases={
        **classifiers(Qwen2ForSequenceClassification, Qwen2ForTokenClassification),
        "sentences": Case(Qwen2Model, encoder_tokens(padding="left", labels="pairs"), meshes=True, pooling="mean"),  # a key that states the purpose
        "plain": Case(meshes=True),
        "window": Case(**WINDOW),
        "window-padded-left": Case(batch=tokens(padding="left"), meshes=True, **WINDOW),
        "layer-types": Case(
            use_sliding_window=True, sliding_window=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        "tied-padded-right": Case(tie_word_embeddings=True, batch=tokens(padding="right"), export=True),
        "rope-yarn": Case(**ROPE["yarn"]),
    },
    published={
        "7b": {
            "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu",
            "hidden_size": 3584, "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 131072,
            "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.37.2", "use_cache": True, "use_sliding_window": False,
            "vocab_size": 152064,
        },
        "with-window-and-yarn": {
            "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
            "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
            "rope_parameters": {
                "rope_theta": 1000000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
            },
            "sliding_window": 4096, "tie_word_embeddings": True, "dtype": "bfloat16", "use_sliding_window": True,
            "use_mrope": False, "vocab_size": 151936,
        },
    },
)
