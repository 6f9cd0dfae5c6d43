from transformers import FalconConfig, FalconForCausalLM, FalconForSequenceClassification, FalconForTokenClassification

from oracle import VOCAB, Case, Family, classifiers, encoder_tokens, rope, tokens

NEW = dict(new_decoder_architecture=True, num_kv_heads=4)
ALL_HEADS = dict(multi_query=False)

FAMILY = Family(
    config=FalconConfig,
    models=[FalconForCausalLM, FalconForSequenceClassification, FalconForTokenClassification],
    small=dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=3, num_attention_heads=8, max_position_embeddings=64),
    wide=dict(hidden_size=128),
    rounds_elsewhere=True,  # the original adds biases after its matmuls, in bfloat16
    cases={
        **classifiers(FalconForSequenceClassification, FalconForTokenClassification),
        "multi-query": Case(),
        "multi-query-padded-left": Case(batch=tokens(padding="left"), bias=True, export=True),
        "multi-query-in-sequence": Case(parallel_attn=False, batch=tokens(padding="right"), ffn_hidden_size=48),
        "new": Case(**NEW, meshes=True, export=True),
        "new-padded-left": Case(**NEW, batch=tokens(padding="left"), bias=True, meshes=True),
        "new-one-norm": Case(**NEW, num_ln_in_parallel_attn=1, activation="gelu_new", meshes=True),
        "new-positions": Case(**NEW, **rope("default"), batch=tokens(positions=True), tie_word_embeddings=False, export=True),
        "new-classes": Case(
            FalconForSequenceClassification, encoder_tokens(padding="left", labels="rows"), **NEW, num_labels=3, pad_token_id=0, meshes=True
        ),
        "all-heads": Case(**ALL_HEADS, bias=True, meshes=True),
        "all-heads-in-sequence": Case(**ALL_HEADS, parallel_attn=False, batch=tokens(padding="left"), meshes=True, export=True),
        "alibi": Case(**ALL_HEADS, alibi=True, bias=True, parallel_attn=False, meshes=True),
        # Padding is on the right: the original's gradients are wrong for a query that sees no key.
        "alibi-padded-right": Case(**NEW, alibi=True, batch=tokens(padding="right"), meshes=True),
        "alibi-multi-query": Case(alibi=True),
        "dropout": Case(**NEW, hidden_dropout=0.2, attention_dropout=0.3, drops=True, meshes=True),
        "dropout-in-sequence": Case(**ALL_HEADS, parallel_attn=False, hidden_dropout=0.2, drops=True),
    },
    published={
        "7b": {
            "alibi": False, "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bias": False,
            "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "multi_query": True, "new_decoder_architecture": False, "num_attention_heads": 71,
            "num_hidden_layers": 32, "parallel_attn": True, "torch_dtype": "bfloat16", "transformers_version": "4.27.4",
            "use_cache": True, "vocab_size": 65024,
        },
        "40b": {
            "alibi": False, "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bias": False,
            "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 8192, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "multi_query": True, "new_decoder_architecture": True, "num_attention_heads": 128,
            "num_hidden_layers": 60, "num_kv_heads": 8, "parallel_attn": True, "torch_dtype": "bfloat16",
            "transformers_version": "4.27.4", "use_cache": True, "vocab_size": 65024,
        },
        "rw-1b": {
            "alibi": True, "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bias": True,
            "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0, "hidden_size": 2048, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "multi_query": False, "new_decoder_architecture": False, "num_attention_heads": 32,
            "num_hidden_layers": 24, "parallel_attn": False, "torch_dtype": "bfloat16", "transformers_version": "4.27.4",
            "use_cache": True, "vocab_size": 50304,
        },
        "11b": {
            "activation": "gelu", "alibi": False, "attention_dropout": 0.0, "bias": False, "bos_token_id": 11, "eos_token_id": 11,
            "ff_factor": 4, "ffn_hidden_size": 16384, "hidden_dropout": 0.0, "hidden_size": 4096, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "max_position_embeddings": 8192, "multi_query": True, "new_decoder_architecture": True,
            "num_attention_heads": 32, "num_hidden_layers": 60, "num_kv_heads": 8, "num_ln_in_parallel_attn": 1,
            "parallel_attn": True, "rope_scaling": None, "rope_theta": 500042.0, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.39.2", "use_cache": True, "vocab_size": 65024,
        },
    },
)
