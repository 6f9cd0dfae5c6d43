from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, GPTNeoXForSequenceClassification, GPTNeoXForTokenClassification

from oracle import VOCAB, Case, Family, classifiers, rope, tokens

FAMILY = Family(
    config=GPTNeoXConfig,
    models=[GPTNeoXForCausalLM, GPTNeoXForSequenceClassification, GPTNeoXForTokenClassification],
    small=dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=64,
    ),
    wide=dict(hidden_size=128, intermediate_size=160),
    cases={
        **classifiers(GPTNeoXForSequenceClassification, GPTNeoXForTokenClassification, meshes=True),
        "plain": Case(meshes=True),
        "one-after-the-other-padded-left": Case(
            use_parallel_residual=False, batch=tokens(padding="left"), meshes=True, export=True
        ),
        "tied-no-biases-padded-right": Case(
            tie_word_embeddings=True, attention_bias=False, batch=tokens(padding="right"), export=True
        ),
        "dropout": Case(hidden_dropout=0.2, attention_dropout=0.3, drops=True, meshes=True),
        "dropout-one-after-the-other": Case(use_parallel_residual=False, hidden_dropout=0.2, drops=True),
        "whole-rotation": Case(**rope("default", partial_rotary_factor=1.0), hidden_act="gelu_fast"),
        "half-rotation": Case(**rope("linear", factor=2.0, partial_rotary_factor=0.5), num_attention_heads=2),
    },
    published={
        "20b": {
            "attention_probs_dropout_prob": 0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu_fast",
            "hidden_dropout_prob": 0, "hidden_size": 6144, "initializer_range": 0.02, "intermediate_size": 24576,
            "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
            "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
            "transformers_version": "4.19.0.dev0", "use_cache": True, "vocab_size": 50432,
        },
        "pythia-70m": {
            "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 512, "initializer_range": 0.02,
            "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
            "num_attention_heads": 8, "num_hidden_layers": 6, "rotary_emb_base": 10000, "rotary_pct": 0.25,
            "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": True,
            "use_parallel_residual": True, "vocab_size": 50304,
        },
        "half-rotation": {"rotary_pct": 0.5, "rotary_emb_base": 5000, "hidden_size": 2048, "num_attention_heads": 16},
    },
)
