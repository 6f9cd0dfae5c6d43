from transformers import ArceeConfig, ArceeForCausalLM, ArceeForSequenceClassification, ArceeForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=ArceeConfig,
    models=[ArceeForCausalLM, ArceeForSequenceClassification, ArceeForTokenClassification],
    small=SMALL_DECODER,
    cases={
        **classifiers(ArceeForSequenceClassification, ArceeForTokenClassification),
        "plain": Case(),
        "biases": Case(attention_bias=True, mlp_bias=True, meshes=True, export=True),
        "tied-padded-left": Case(tie_word_embeddings=True, batch=tokens(padding="left"), meshes=True),
        "gelu": Case(hidden_act="gelu_new", num_key_value_heads=1),
        "rope-yarn": Case(**ROPE["yarn"]),
    },
    published={
        "4.5b": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
            "head_dim": 128, "hidden_act": "relu2", "hidden_size": 2560, "initializer_range": 0.02,
            "intermediate_size": 18432, "max_position_embeddings": 65536, "mlp_bias": False, "num_attention_heads": 20,
            "num_hidden_layers": 36, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "beta_fast": 32.0, "beta_slow": 1.0, "factor": 20.0, "mscale": 1.0, "original_max_position_embeddings": 4096,
                "rope_type": "yarn", "type": "yarn",
            },
            "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.53.0", "use_cache": True, "vocab_size": 128004,
        },
    },
)
