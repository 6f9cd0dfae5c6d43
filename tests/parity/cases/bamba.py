from transformers import BambaConfig, BambaForCausalLM

from oracle import SMALL_DECODER, Case, Family, rope, tokens

SMALL = {key: value for key, value in SMALL_DECODER.items() if key != "head_dim"}

FAMILY = Family(
    config=BambaConfig,
    models=[BambaForCausalLM],
    small=dict(SMALL, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_state=6, mamba_chunk_size=10),
    wide=dict(hidden_size=128, intermediate_size=160, mamba_n_heads=64),
    cases={
        "plain": Case(meshes=True),
        "groups-biases-padded-left": Case(
            mamba_n_groups=4, mamba_proj_bias=True, attention_bias=True, mlp_bias=True, batch=tokens(padding="left"),
            meshes=True, export=True,
        ),
        "tied-padded-right": Case(
            tie_word_embeddings=True, mamba_conv_bias=False, mamba_chunk_size=64, attn_layer_indices=[0, 2],
            batch=tokens(padding="right"), export=True,
        ),
        "limited-steps": Case(attn_layer_indices=[2], mamba_d_conv=3, time_step_limit=[0.5, 0.9]),
        "whole-rotation": Case(**rope("default", partial_rotary_factor=1.0), num_key_value_heads=4),
    },
    published={
        "9b": {
            "attention_bias": False, "attention_dropout": 0.0, "attn_layer_indices": [9, 18, 27], "attn_rotary_emb": 64,
            "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
            "initializer_range": 0.02, "intermediate_size": 14336, "mamba_chunk_size": 256, "mamba_conv_bias": True,
            "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1,
            "mamba_n_heads": 128, "mamba_proj_bias": False, "max_position_embeddings": 262144, "mlp_bias": False,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_logits_to_keep": 1,
            "pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.48.0.dev0",
            "use_cache": True, "vocab_size": 128256,
        },
        "new": {
            "mamba_d_head": "auto", "mamba_n_heads": 32, "num_key_value_heads": None, "hidden_size": 2048,
            "time_step_limit": [0.0, {"__float__": "Infinity"}], "dtype": "bfloat16",
            "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default", "partial_rotary_factor": 0.5},
        },
    },
)
