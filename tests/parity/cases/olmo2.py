from transformers import Olmo2Config, Olmo2ForCausalLM, Olmo2ForSequenceClassification

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, tokens

SMALL = {key: value for key, value in SMALL_DECODER.items() if key != "head_dim"}

FAMILY = Family(
    config=Olmo2Config,
    models=[Olmo2ForCausalLM, Olmo2ForSequenceClassification],
    small=SMALL,
    wide=dict(hidden_size=128, intermediate_size=160),
    cases={
        **classifiers(Olmo2ForSequenceClassification, meshes=True),
        "plain": Case(num_key_value_heads=4, meshes=True),
        "biases-padded-left": Case(attention_bias=True, batch=tokens(padding="left"), meshes=True, export=True),
        "tied-padded-right": Case(tie_word_embeddings=True, batch=tokens(padding="right"), meshes=True, export=True),
        "one-key-head": Case(num_key_value_heads=1, pad_token_id=None, hidden_act="gelu", rms_norm_eps=0.1),
        "positions": Case(batch=tokens(positions=True)),
        "yarn": Case(**ROPE["yarn"]),
    },
    published={
        "1124-7b": {
            "attention_bias": False, "attention_dropout": 0.0, "eos_token_id": 100257, "hidden_act": "silu",
            "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277,
            "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False,
            "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "use_cache": False, "vocab_size": 100352,
        },
        "0325-32b": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 100257, "eos_token_id": 100257,
            "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02, "intermediate_size": 27648,
            "max_position_embeddings": 4096, "num_attention_heads": 40, "num_hidden_layers": 64, "num_key_value_heads": 8,
            "pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 500000,
            "tie_word_embeddings": False, "torch_dtype": "float32", "transformers_version": "4.49.0", "use_cache": False,
            "vocab_size": 100352,
        },
    },
)
