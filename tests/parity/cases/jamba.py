from transformers import JambaConfig, JambaForCausalLM, JambaForSequenceClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, tokens

SMALL = {key: value for key, value in SMALL_DECODER.items() if key != "head_dim"}

FAMILY = Family(
    config=JambaConfig,
    models=[JambaForCausalLM, JambaForSequenceClassification],
    small=dict(
        SMALL, num_experts=4, attn_layer_period=3, attn_layer_offset=1, expert_layer_offset=0, mamba_d_state=6, mamba_dt_rank=5
    ),
    wide=dict(hidden_size=128, intermediate_size=160, mamba_dt_rank=32),
    cases={
        **classifiers(JambaForSequenceClassification, meshes=True),
        "plain": Case(meshes=True),
        "biases-padded-left": Case(
            mamba_proj_bias=True, num_experts=3, num_experts_per_tok=1, mamba_expand=3, batch=tokens(padding="left"),
            meshes=True, export=True,
        ),
        "tied-padded-right": Case(
            tie_word_embeddings=True, mamba_conv_bias=False, attn_layer_offset=0, batch=tokens(padding="right"), export=True
        ),
        "balanced-padded-left": Case(
            output_router_logits=True, router_aux_loss_coef=0.3, batch=tokens(padding="left"), meshes=True
        ),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "no-experts": Case(num_experts=1, num_experts_per_tok=1, mamba_d_conv=3, hidden_act="gelu", num_key_value_heads=4),
    },
    published={
        "v0.1": {
            "attention_dropout": 0.0, "attn_layer_offset": 4, "attn_layer_period": 8, "bos_token_id": 1,
            "calc_logits_for_entire_prompt": False, "eos_token_id": 2, "expert_layer_offset": 1,
            "expert_layer_period": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
            "intermediate_size": 14336, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_state": 16,
            "mamba_dt_rank": 256, "mamba_expand": 2, "mamba_inner_layernorms": True, "mamba_proj_bias": False,
            "num_attention_heads": 32, "num_experts": 16, "num_experts_per_tok": 2, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "output_router_logits": False, "pad_token_id": 0, "rms_norm_eps": 1e-06,
            "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.40.0.dev0", "use_cache": True,
            "use_mamba_kernels": True, "vocab_size": 65536,
        },
        "new": {
            "mamba_dt_rank": "auto", "hidden_size": 2560, "num_attention_heads": 20, "num_key_value_heads": 1,
            "num_local_experts": 1, "num_experts_per_tok": 1, "use_mamba_kernels": False, "dtype": "bfloat16",
        },
    },
)
