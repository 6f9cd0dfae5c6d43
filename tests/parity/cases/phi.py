from transformers import PhiConfig, PhiForCausalLM, PhiForSequenceClassification, PhiForTokenClassification

from oracle import SMALL_DECODER, Case, Family, classifiers, rope, tokens

FAMILY = Family(
    config=PhiConfig,
    models=[PhiForCausalLM, PhiForSequenceClassification, PhiForTokenClassification],
    small={key: value for key, value in SMALL_DECODER.items() if key != "head_dim"},
    wide=dict(hidden_size=128, intermediate_size=160),
    rounds_elsewhere=True,  # gelu_new is a single function here
    cases={
        **classifiers(PhiForSequenceClassification, PhiForTokenClassification),
        "plain": Case(num_key_value_heads=4, meshes=True),
        "qk-norms-padded-left": Case(qk_layernorm=True, batch=tokens(padding="left"), meshes=True, export=True),
        "padded-right": Case(batch=tokens(padding="right"), num_key_value_heads=1, hidden_act="gelu"),
        "dropout": Case(resid_pdrop=0.2, embd_pdrop=0.1, attention_dropout=0.3, num_key_value_heads=4, drops=True, meshes=True),
        "whole-rotation": Case(**rope("default", partial_rotary_factor=1.0)),
    },
    published={
        "2": {
            "attention_dropout": 0.0, "bos_token_id": 50256, "embd_pdrop": 0.0, "eos_token_id": 50256,
            "hidden_act": "gelu_new", "hidden_size": 2560, "initializer_range": 0.02, "intermediate_size": 10240,
            "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 32, "partial_rotary_factor": 0.4, "qk_layernorm": False,
            "resid_pdrop": 0.1, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "torch_dtype": "float16", "transformers_version": "4.37.0", "use_cache": True, "vocab_size": 51200,
        },
        "1.5": {
            "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 24,
            "num_key_value_heads": None, "rope_theta": 10000.0,
        },
    },
)
