from transformers import Gemma2Config, Gemma2ForCausalLM, Gemma2ForSequenceClassification, Gemma2ForTokenClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

FAMILY = Family(
    config=Gemma2Config,
    models=[Gemma2ForCausalLM, Gemma2ForSequenceClassification, Gemma2ForTokenClassification],
    small={**SMALL_DECODER, "sliding_window": 7, "query_pre_attn_scalar": 24},
    offset_norms=True,
    cases={
        **classifiers(Gemma2ForSequenceClassification, Gemma2ForTokenClassification),
        "plain": Case(attn_logit_softcapping=0.5, final_logit_softcapping=2.0, meshes=True),
        "untied-padded-left": Case(tie_word_embeddings=False, batch=tokens(padding="left"), meshes=True, export=True),
        "padded-right": Case(batch=tokens(padding="right"), num_key_value_heads=1, head_dim=16, sliding_window=64),
        "dropout": Case(attention_dropout=0.3, attn_logit_softcapping=0.5, drops=True, meshes=True),
        "no-caps": Case(attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True),
        "layer-types": Case(
            layer_types=["full_attention", "full_attention", "sliding_attention"], hidden_activation="gelu", **ROPE["linear"]
        ),
    },
    published={
        "9b": {
            "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
            "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256,
            "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584,
            "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 8192,
            "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8, "pad_token_id": 0,
            "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
            "sliding_window_size": 4096, "torch_dtype": "float32", "transformers_version": "4.42.0.dev0",
            "use_cache": True, "vocab_size": 256000,
        },
        "new": {
            "hidden_size": 2304, "layer_types": ["full_attention", "sliding_attention"] * 13, "sliding_window": None,
            "dtype": "bfloat16", "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        },
    },
)
