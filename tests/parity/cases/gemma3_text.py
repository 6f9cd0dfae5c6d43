from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Gemma3TextForSequenceClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, tokens

SETS = {
    "full_attention": {"rope_type": "linear", "rope_theta": 2000.0, "factor": 3.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
}
FAMILY = Family(
    config=Gemma3TextConfig,
    models=[Gemma3ForCausalLM, Gemma3TextForSequenceClassification],
    small={**SMALL_DECODER, "sliding_window": 7, "query_pre_attn_scalar": 24},
    offset_norms=True,
    cases={
        **classifiers(Gemma3TextForSequenceClassification),
        "plain": Case(layer_types=["sliding_attention", "full_attention", "sliding_attention"], meshes=True),
        "rope-sets": Case(
            layer_types=["full_attention", "sliding_attention", "full_attention"], rope_parameters=SETS, export=True
        ),
        "untied-padded-left": Case(tie_word_embeddings=False, batch=tokens(padding="left"), meshes=True, export=True),
        "padded-right": Case(batch=tokens(padding="right"), num_key_value_heads=1, head_dim=16, attention_bias=True),
        "dropout": Case(attention_dropout=0.3, drops=True),
        "caps": Case(attn_logit_softcapping=0.5, final_logit_softcapping=2.0, num_hidden_layers=7),
    },
    published={
        "1b": {
            "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None, "bos_token_id": 2,
            "cache_implementation": "hybrid", "eos_token_id": [1, 106], "final_logit_softcapping": None, "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
            "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4,
            "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256,
            "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": None, "rope_theta": 1000000,
            "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
            "transformers_version": "4.50.0.dev0", "use_cache": True, "vocab_size": 262144,
        },
        "with-scaling": {
            "hidden_size": 2560, "rope_local_base_freq": 9000.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "rope_theta": 1000000.0, "sliding_window": 1024, "sliding_window_pattern": 3, "num_hidden_layers": 8,
        },
        "new": {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3, "rope_parameters": SETS},
    },
)
