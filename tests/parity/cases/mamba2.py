from transformers import Mamba2Config, Mamba2ForCausalLM

from oracle import VOCAB, Case, Family, tokens

FAMILY = Family(
    config=Mamba2Config,
    models=[Mamba2ForCausalLM],
    small=dict(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_heads=8, head_dim=8, n_groups=2, state_size=6, chunk_size=10
    ),
    wide=dict(hidden_size=128, num_heads=64, head_dim=4, conv_kernel=5),
    cases={
        "three-chunks": Case(meshes=True),
        "biases-padded-left": Case(
            use_bias=True, n_groups=4, residual_in_fp32=False, batch=tokens(padding="left"), meshes=True, export=True
        ),
        "tied-padded-right": Case(
            tie_word_embeddings=True, use_conv_bias=False, n_groups=1, chunk_size=4, batch=tokens(padding="right"), export=True
        ),
        "one-chunk-limited-steps": Case(chunk_size=64, time_step_limit=[0.5, 0.9], conv_kernel=3, hidden_act="gelu"),
    },
    published={
        "codestral-7b": {
            "bos_token_id": 0, "chunk_size": 256, "conv_kernel": 4, "eos_token_id": 0, "expand": 2, "head_dim": 64,
            "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.1, "intermediate_size": 8192,
            "layer_norm_epsilon": 1e-05, "n_groups": 8, "norm_before_gate": True, "num_heads": 128,
            "num_hidden_layers": 64, "pad_token_id": 0, "rescale_prenorm_residual": False, "residual_in_fp32": True,
            "rms_norm": True, "state_size": 128, "tie_word_embeddings": False, "time_step_floor": 0.0001,
            "time_step_init_scheme": "random", "time_step_limit": [0.0, float("inf")], "time_step_max": 0.1,
            "time_step_min": 0.001, "time_step_rank": 256, "time_step_scale": 1.0, "torch_dtype": "bfloat16",
            "transformers_version": "4.42.0.dev0", "use_bias": False, "use_cache": True, "use_conv_bias": True,
            "vocab_size": 32768,
        },
        "new": {
            "hidden_size": 64, "num_heads": 16, "head_dim": 8, "time_step_rank": "auto",
            "time_step_limit": [0.001, {"__float__": "Infinity"}], "dtype": "bfloat16",
        },
    },
)
