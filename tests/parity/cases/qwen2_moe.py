from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen2MoeForSequenceClassification, Qwen2MoeForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=Qwen2MoeConfig,
    models=[Qwen2MoeForCausalLM, Qwen2MoeForSequenceClassification, Qwen2MoeForTokenClassification],
    small={
        **SMALL_DECODER, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
    },
    cases={
        **classifiers(Qwen2MoeForSequenceClassification, Qwen2MoeForTokenClassification),
        "plain": Case(meshes=True),
        "dense-layers": Case(
            mlp_only_layers=[2], decoder_sparse_step=2, norm_topk_prob=True, qkv_bias=False, meshes=True, export=True
        ),
        "window-padded-left": Case(
            use_sliding_window=True, sliding_window=7, max_window_layers=2, batch=tokens(padding="left"), meshes=True,
        ),
        "balanced": Case(
            output_router_logits=True, router_aux_loss_coef=0.3, mlp_only_layers=[1], batch=tokens(padding="right"),
            meshes=True,
        ),
        "layer-types": Case(
            use_sliding_window=True, sliding_window=5,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        ),
        "tied-padded-right": Case(
            tie_word_embeddings=True, num_experts_per_tok=5, batch=tokens(padding="right"), export=True
        ),
        "sharded": Case(max_shard_size="20KB", **ROPE["yarn"]),
    },
    published={
        "1.5-a2.7b": {
            "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu",
            "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 8192,
            "max_window_layers": 21, "num_attention_heads": 16, "num_hidden_layers": 24, "num_key_value_heads": 16,
            "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.39.0.dev0", "use_cache": True,
            "use_sliding_window": False, "vocab_size": 151936, "decoder_sparse_step": 1, "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60,
            "norm_topk_prob": False, "output_router_logits": False, "router_aux_loss_coef": 0.001,
        },
        "57b-a14b-with-yarn": {
            "hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
            "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 65536,
            "use_sliding_window": True, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480,
            "num_experts_per_tok": 8, "num_experts": 64, "mlp_only_layers": [], "dtype": "bfloat16",
            "rope_parameters": {
                "rope_theta": 1000000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
            },
        },
    },
    wide=dict(
        hidden_size=128, intermediate_size=160, head_dim=32, moe_intermediate_size=96, num_experts=16,
        decoder_sparse_step=2,
    ),
)
