import torch
from transformers import CLIPConfig, CLIPForImageClassification, CLIPModel

from oracle import SMALL_PAIR, VOCAB, WIDE_PAIR, Case, Family, images, pairs

FAMILY = Family(
    config=CLIPConfig,
    models=[CLIPModel, CLIPForImageClassification],
    small=dict(SMALL_PAIR, projection_dim=16),
    wide=dict(WIDE_PAIR, projection_dim=48),
    rounds_elsewhere=True,  # embeddings of pairs are compared in float32
    cases={
        "pairs": Case(batch=pairs(), meshes=True),
        "pairs-padded": Case(batch=pairs(padding="right"), meshes=True, logit_scale_init_value=1.0),
        "pairs-first-end": Case(
            batch=pairs(padding="right"), export=True, text_config=dict(eos_token_id=2, hidden_act="gelu"),
            vision_config=dict(hidden_act="gelu", num_channels=1),
        ),
        "pairs-positions": Case(batch=pairs(positions=True), dtype=torch.bfloat16, projection_dim=8),
        "pairs-dropout": Case(
            batch=pairs(), text_config=dict(attention_dropout=0.3), vision_config=dict(attention_dropout=0.2), drops=True, meshes=True,
        ),
        "labels": Case(CLIPForImageClassification, images(), meshes=True),
        "labels-of-three": Case(
            CLIPForImageClassification, images(), num_labels=3, vision_config=dict(layer_norm_eps=1e-6), export=True
        ),
    },
    published={
        # Written before the towers' configs had the current keys: both old and new keys are there, and many irrelevant
        # ones.
        "vit-base-patch32": {
            "architectures": ["CLIPModel"], "initializer_factor": 1.0, "logit_scale_init_value": 2.6592, "model_type": "clip",
            "projection_dim": 512, "torch_dtype": "float32", "transformers_version": None,
            "text_config": {
                "_name_or_path": "", "add_cross_attention": False, "architectures": None, "attention_dropout": 0.0,
                "bad_words_ids": None, "bos_token_id": 0, "chunk_size_feed_forward": 0, "dropout": 0.0, "eos_token_id": 2,
                "hidden_act": "quick_gelu", "hidden_size": 512, "initializer_factor": 1.0, "initializer_range": 0.02,
                "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 77,
                "model_type": "clip_text_model", "num_attention_heads": 8, "num_hidden_layers": 12, "pad_token_id": 1,
                "projection_dim": 512, "torch_dtype": None, "transformers_version": "4.16.0.dev0", "vocab_size": 49408,
            },
            "text_config_dict": None,
            "vision_config": {
                "_name_or_path": "", "architectures": None, "attention_dropout": 0.0, "dropout": 0.0,
                "hidden_act": "quick_gelu", "hidden_size": 768, "image_size": 224, "initializer_factor": 1.0,
                "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-05,
                "model_type": "clip_vision_model", "num_attention_heads": 12, "num_hidden_layers": 12, "patch_size": 32,
                "projection_dim": 512, "transformers_version": "4.16.0.dev0",
            },
            "vision_config_dict": None,
        },
        # Only differences from the defaults, and the old keys, which win as a unit.
        "vit-large-patch14-336": {
            "architectures": ["CLIPModel"], "initializer_factor": 1.0, "logit_scale_init_value": 2.6592, "model_type": "clip",
            "projection_dim": 768, "torch_dtype": "float32", "transformers_version": "4.21.3",
            "text_config": {"hidden_size": 640, "hidden_act": "gelu"},
            "text_config_dict": {
                "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12,
                "projection_dim": 768,
            },
            "vision_config": {
                "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "num_attention_heads": 16,
                "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768,
            },
        },
        "towers-missing": {"architectures": ["CLIPModel"], "vision_config": None, "projection_dim": 256, "dtype": "bfloat16"},
    },
)
