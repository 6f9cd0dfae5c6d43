from transformers import DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV2ForSequenceClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

SMALL = {
    **SMALL_DECODER, "num_key_value_heads": 4, "kv_lora_rank": 20, "q_lora_rank": 12, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4,
    "topk_group": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
}
LIMITED = dict(topk_method="group_limited_greedy")

FAMILY = Family(
    config=DeepseekV2Config,
    models=[DeepseekV2ForCausalLM, DeepseekV2ForSequenceClassification],
    small=SMALL,
    cases={
        **classifiers(DeepseekV2ForSequenceClassification),
        "plain": Case(meshes=True),
        "groups-padded-left": Case(
            routed_scaling_factor=1.7, batch=tokens(padding="left"), meshes=True, export=True, **LIMITED
        ),
        "no-query-latent-padded-right": Case(
            q_lora_rank=None, attention_bias=True, mlp_bias=True, n_shared_experts=1, batch=tokens(padding="right"),
            meshes=True, export=True,
        ),
        "balanced": Case(router=dict(aux_loss=0.3, z_loss=0.05), output_router_logits=True, meshes=True, **LIMITED),
        "balanced-by-sequence": Case(
            router=dict(aux_loss=0.3, balance="sequence"), batch=tokens(padding="left"), meshes=True, **LIMITED
        ),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "all-dense-tied": Case(first_k_dense_replace=3, tie_word_embeddings=True, export=True),
        "yarn": Case(**ROPE["yarn"]),
        "yarn-all": Case(first_k_dense_replace=0, max_shard_size="20KB", **LIMITED, **ROPE["yarn-all"]),
        "positions": Case(batch=tokens(positions=True)),
    },
    published={
        "v2": {
            "attention_bias": False, "attention_dropout": 0.0, "aux_loss_alpha": 0.001, "bos_token_id": 100000,
            "eos_token_id": 100001, "ep_size": 1, "first_k_dense_replace": 1, "hidden_act": "silu",
            "hidden_size": 5120, "initializer_range": 0.02, "intermediate_size": 12288, "kv_lora_rank": 512,
            "max_position_embeddings": 163840, "moe_intermediate_size": 1536, "moe_layer_freq": 1, "n_group": 8,
            "n_routed_experts": 160, "n_shared_experts": 2, "norm_topk_prob": False, "num_attention_heads": 128,
            "num_experts_per_tok": 6, "num_hidden_layers": 60, "num_key_value_heads": 128, "pretraining_tp": 1,
            "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
            "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                "original_max_position_embeddings": 4096, "type": "yarn",
            },
            "rope_theta": 10000, "routed_scaling_factor": 16.0, "scoring_func": "softmax", "seq_aux": True,
            "tie_word_embeddings": False, "topk_group": 3, "topk_method": "group_limited_greedy",
            "torch_dtype": "bfloat16", "transformers_version": "4.39.3", "use_cache": True, "v_head_dim": 128,
            "vocab_size": 102400,
        },
        "lite": {
            "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_attention_heads": 16,
            "num_key_value_heads": 16, "num_hidden_layers": 27, "q_lora_rank": None, "first_k_dense_replace": 1,
            "num_experts_per_tok": 6, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "dtype": "bfloat16",
            "rope_parameters": {"rope_theta": 10000, "rope_type": "default"},
        },
    },
    wide=dict(hidden_size=128, intermediate_size=160, moe_intermediate_size=96, n_routed_experts=16, kv_lora_rank=64),
)
