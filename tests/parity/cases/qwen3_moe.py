from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3MoeForSequenceClassification, Qwen3MoeForTokenClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=Qwen3MoeConfig,
    models=[Qwen3MoeForCausalLM, Qwen3MoeForSequenceClassification, Qwen3MoeForTokenClassification],
    small={**SMALL_DECODER, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    cases={
        **classifiers(Qwen3MoeForSequenceClassification, Qwen3MoeForTokenClassification),
        "plain": Case(meshes=True),
        "dense-layers": Case(
            mlp_only_layers=[0], norm_topk_prob=True, attention_bias=True, head_dim=16, meshes=True, export=True
        ),
        "window-padded-left": Case(
            use_sliding_window=True, sliding_window=7, batch=tokens(padding="left"), meshes=True,
        ),
        "tied-padded-right": Case(
            tie_word_embeddings=True, decoder_sparse_step=2, batch=tokens(padding="right"), export=True
        ),
        "balanced": Case(output_router_logits=True, router_aux_loss_coef=0.3, norm_topk_prob=True, meshes=True),
        "sharded": Case(max_shard_size="20KB", num_experts_per_tok=4),
    },
    published={
        "30b-a3b": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1,
            "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
            "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960,
            "max_window_layers": 48, "mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": True,
            "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
            "num_key_value_heads": 4, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None,
            "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
            "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
        },
        "with-yarn": {
            "head_dim": 128, "hidden_size": 4096, "num_attention_heads": 64, "num_local_experts": 64,
            "sliding_window": 4096, "use_sliding_window": True, "mlp_only_layers": [0, 1], "dtype": "bfloat16",
            "rope_parameters": {
                "rope_theta": 5000000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
            },
        },
    },
    wide=dict(
        hidden_size=128, intermediate_size=160, head_dim=32, moe_intermediate_size=96, num_experts=16,
        decoder_sparse_step=2,
    ),
)
