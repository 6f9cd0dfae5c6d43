from safetensors.torch import load_file, save_file
from transformers import BloomConfig, BloomForCausalLM, BloomForSequenceClassification, BloomForTokenClassification

from oracle import VOCAB, Case, Family, classifiers, tokens


def without_prefix(folder):
    """Strips the prefix of tensor names, as in bigscience/bloom's own files."""
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})


FAMILY = Family(
    config=BloomConfig,
    models=[BloomForCausalLM, BloomForSequenceClassification, BloomForTokenClassification],
    small=dict(vocab_size=VOCAB, hidden_size=32, n_layer=3, n_head=4),
    wide=dict(hidden_size=128),
    rounds_elsewhere=True,  # the original adds biases and scores in bfloat16, and has its own gelu
    cases={
        **classifiers(BloomForSequenceClassification, BloomForTokenClassification, meshes=True),
        "plain": Case(meshes=True, rewrite=without_prefix),
        "residual-after-norms-padded-left": Case(
            apply_residual_connection_post_layernorm=True, batch=tokens(padding="left"), meshes=True, export=True
        ),
        "dropout": Case(hidden_dropout=0.2, attention_dropout=0.3, drops=True, meshes=True),
        "untied-padded-right": Case(tie_word_embeddings=False, batch=tokens(padding="right"), meshes=True, export=True),
        "heads-between-powers-of-two": Case(n_head=6, hidden_size=36, meshes=True),
        "one-head": Case(n_head=1),
    },
    published={  # config.json files as found on model hubs
        "176b": {
            "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "attention_softmax_in_fp32": True,
            "bias_dropout_fusion": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "unk_token_id": 0,
            "hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True,
            "model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "pretraining_tp": 4,
            "slow_but_exact": False, "transformers_version": "4.21.0", "use_cache": True, "vocab_size": 250880,
        },
        "560m": {
            "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bos_token_id": 1,
            "eos_token_id": 2, "hidden_dropout": 0.0, "hidden_size": 1024, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True, "n_head": 16, "n_inner": None, "n_layer": 24,
            "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": True,
            "skip_bias_add_qkv": False, "slow_but_exact": False, "transformers_version": "4.20.0", "unk_token_id": 0,
            "use_cache": True, "vocab_size": 250880,
        },
    },
)
