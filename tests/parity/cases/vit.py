import torch
from transformers import ViTConfig, ViTForImageClassification

from oracle import SMALL_VISION, WIDE_VISION, Case, Family, images

FAMILY = Family(
    config=ViTConfig,
    models=[ViTForImageClassification],
    small=SMALL_VISION,
    wide=WIDE_VISION,
    cases={
        "labels": Case(batch=images(), num_labels=5, meshes=True),
        "several-labels": Case(batch=images(sets=True), num_labels=5, problem_type="multi_label_classification"),
        "unbiased": Case(batch=images(), qkv_bias=False, num_labels=3, hidden_act="gelu_new", num_channels=1, meshes=True, export=True),
        "dropout": Case(
            batch=images(), hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, num_labels=5, drops=True, meshes=True,
        ),
        "bfloat16-file": Case(batch=images(), dtype=torch.bfloat16, layer_norm_eps=1e-6, hidden_act="quick_gelu"),
    },
    published={
        # The class of the first releases, and a table of label names.
        "base-patch16-224": {
            "attention_probs_dropout_prob": 0.0, "encoder_stride": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
            "hidden_size": 768, "id2label": {str(label): f"class {label}" for label in range(1000)}, "image_size": 224,
            "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12, "num_attention_heads": 12,
            "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": True, "transformers_version": "4.13.0.dev0",
        },
        "huge-patch14-224-in21k": {
            "_name_or_path": "google/vit-huge-patch14-224-in21k", "architectures": ["ViTForImageClassification"],
            "attention_probs_dropout_prob": 0.0, "dtype": "float32", "hidden_act": "gelu", "hidden_dropout_prob": 0.0,
            "hidden_size": 1280, "image_size": 224, "initializer_range": 0.02, "intermediate_size": 5120, "layer_norm_eps": 1e-12,
            "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 32, "patch_size": 14, "pooler_act": "tanh",
            "pooler_output_size": 1280, "problem_type": "single_label_classification", "qkv_bias": True,
        },
    },
)
