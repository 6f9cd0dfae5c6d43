import torch
from safetensors.torch import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, DeepseekV3ForSequenceClassification, DeepseekV3ForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

SMALL = {
    **SMALL_DECODER, "num_key_value_heads": 4, "kv_lora_rank": 20, "q_lora_rank": 12, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4,
    "topk_group": 2, "routed_scaling_factor": 1.5, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
}


def with_further_layers(folder):
    """Adds the multi-token prediction modules after the last layer, as published."""
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.3.eh_proj.weight"] = torch.ones(32, 64)
    tensors["model.layers.3.enorm.weight"] = torch.ones(32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


FAMILY = Family(
    config=DeepseekV3Config,
    models=[DeepseekV3ForCausalLM, DeepseekV3ForSequenceClassification, DeepseekV3ForTokenClassification],
    small=SMALL,
    rounds_elsewhere=True,  # experts are summed in another order
    cases={
        **classifiers(DeepseekV3ForSequenceClassification, DeepseekV3ForTokenClassification, meshes=True),
        "plain": Case(meshes=True),
        "further-layers": Case(rewrite=with_further_layers),
        "halves-padded-left": Case(
            rope_interleave=False, norm_topk_prob=False, n_shared_experts=2, batch=tokens(padding="left"), meshes=True,
            export=True,
        ),
        "no-query-latent-padded-right": Case(
            q_lora_rank=None, attention_bias=True, topk_group=3, batch=tokens(padding="right"), meshes=True,
            export=True,
        ),
        "balanced": Case(router=dict(aux_loss=0.3, z_loss=0.05), batch=tokens(padding="right"), meshes=True),
        "balanced-by-sequence": Case(router=dict(aux_loss=0.3, balance="sequence"), meshes=True),
        "all-dense-tied": Case(first_k_dense_replace=3, tie_word_embeddings=True, export=True),
        "yarn": Case(**ROPE["yarn"]),
        "yarn-all": Case(first_k_dense_replace=0, max_shard_size="20KB", **ROPE["yarn-all"]),
        "bfloat16": Case(dtype=torch.bfloat16),
    },
    published={
        "v3-unquantized": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
            "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
            "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
            "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
            "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8,
            "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
            "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096, "type": "yarn",
            },
            "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
            "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "transformers_version": "4.33.1",
            "use_cache": True, "v_head_dim": 128, "vocab_size": 129280,
        },
        "new-style": {
            "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": None, "q_lora_rank": None,
            "num_local_experts": 64, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 6, "dtype": "bfloat16",
            "rope_parameters": {
                "rope_theta": 50000.0, "rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
                "beta_fast": 1.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            },
        },
    },
    wide=dict(hidden_size=128, intermediate_size=160, moe_intermediate_size=96, n_routed_experts=16, kv_lora_rank=64),
)
