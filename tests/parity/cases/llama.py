import json

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, LlamaForTokenClassification, LlamaModel

from oracle import ROPE, SMALL_DECODER, Case, Family, classifiers, encoder_tokens, tokens


def in_the_style_of_2024(folder):
    """RoPE parameters spread over two keys, and a dtype under its original name."""
    config = json.loads((folder / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    config["torch_dtype"] = config.pop("dtype")
    config["head_dim"] = None
    (folder / "config.json").write_text(json.dumps(config))


def without_prefix(folder):
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})


FAMILY = Family(
    config=LlamaConfig,
    models=[LlamaForCausalLM, LlamaForSequenceClassification, LlamaForTokenClassification],
    small=SMALL_DECODER,
    cases={
        "sentences": Case(LlamaModel, encoder_tokens(padding="right", labels="pairs"), meshes=True, pooling="mean"),  # a key that states the purpose
        **classifiers(LlamaForSequenceClassification, LlamaForTokenClassification, meshes=True),
        "several-labels": Case(
            LlamaForSequenceClassification, encoder_tokens(padding="left", labels="sets"), num_labels=5, pad_token_id=0,
            problem_type="multi_label_classification", meshes=True,
        ),
        "plain": Case(num_key_value_heads=4),
        "grouped": Case(),
        "one-key-head": Case(num_key_value_heads=1, head_dim=16),
        "biases": Case(attention_bias=True, mlp_bias=True, meshes=True, export=True),
        "tied": Case(tie_word_embeddings=True, export=True),
        "tied-biases": Case(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, meshes=True, export=True),
        "padding-token": Case(pad_token_id=5),
        "gelu": Case(hidden_act="gelu"),
        "padded-left": Case(batch=tokens(padding="left"), meshes=True),
        "padded-right": Case(batch=tokens(padding="right"), attention_bias=True),
        "positions": Case(batch=tokens(positions=True)),
        "dropout": Case(attention_dropout=0.3, drops=True, meshes=True),
        "sharded": Case(max_shard_size="20KB"),
        "bfloat16": Case(dtype=torch.bfloat16),
        "float16": Case(dtype=torch.float16),
        "old-config": Case(rewrite=in_the_style_of_2024, **ROPE["llama3"]),
        "base-prefix-stripped": Case(rewrite=without_prefix),
        **{f"rope-{name}": Case(**overrides) for name, overrides in ROPE.items()},
    },
    published={
        "2": {
            "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
            "intermediate_size": 11008, "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
            "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": True,
            "vocab_size": 32000,
        },
        "3.1": {
            "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
            "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
            "max_position_embeddings": 131072, "mlp_bias": False, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
            "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.43.0.dev0", "use_cache": True, "vocab_size": 128256,
        },
    },
)
