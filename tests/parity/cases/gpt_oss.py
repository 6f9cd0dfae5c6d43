from transformers import GptOssConfig, GptOssForCausalLM, GptOssForSequenceClassification, GptOssForTokenClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, rope, tokens

FAMILY = Family(
    config=GptOssConfig,
    models=[GptOssForCausalLM, GptOssForSequenceClassification, GptOssForTokenClassification],
    small={**SMALL_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 7},
    rounds_elsewhere=True,  # experts are summed in another order
    cases={
        **classifiers(GptOssForSequenceClassification, GptOssForTokenClassification),
        "plain": Case(meshes=True),
        "full-padded-left": Case(layer_types=["full_attention"] * 3, batch=tokens(padding="left"), meshes=True, export=True),
        "tied-padded-right": Case(
            tie_word_embeddings=True, attention_bias=False, num_local_experts=3, batch=tokens(padding="right"), export=True
        ),
        "clamped": Case(swiglu_limit=0.5, swiglu_alpha=1.1, meshes=True),
        "balanced-padded-left": Case(
            output_router_logits=True, router_aux_loss_coef=0.3, batch=tokens(padding="left"), meshes=True
        ),
        "balanced-by-sequence": Case(
            router=dict(aux_loss=0.4, balance="sequence", z_loss=0.05), batch=tokens(padding="right"), meshes=True
        ),
        "positions": Case(**rope("default"), batch=tokens(positions=True), num_experts_per_tok=3),
    },
    published={
        "20b-unquantized": {
            "attention_bias": True, "attention_dropout": 0.0, "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64,
            "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
            "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"] * 12,
            "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
            "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": False, "pad_token_id": 199999,
            "rms_norm_eps": 1e-05, "rope_scaling": {
                "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                "rope_type": "yarn", "truncate": False,
            },
            "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.55.0.dev0", "use_cache": True,
            "vocab_size": 201088,
        },
    },
)
