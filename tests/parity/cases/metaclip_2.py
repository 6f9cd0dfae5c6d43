from transformers import MetaClip2Config, MetaClip2ForImageClassification, MetaClip2Model

from oracle import SMALL_PAIR, WIDE_PAIR, Case, Family, images, pairs

FAMILY = Family(
    config=MetaClip2Config,
    models=[MetaClip2Model, MetaClip2ForImageClassification],
    small=dict(SMALL_PAIR, projection_dim=16),
    wide=dict(WIDE_PAIR, projection_dim=48, logit_scale_init_value=1.5),
    cases={
        "pairs": Case(batch=pairs(), meshes=True),
        "pairs-padded": Case(batch=pairs(padding="right"), text_config=dict(hidden_act="gelu"), projection_dim=8, meshes=True),
        # 2 is an ordinary id here.
        "pairs-end-2": Case(batch=pairs(end=2), text_config=dict(eos_token_id=2)),
        "labels": Case(MetaClip2ForImageClassification, images(), meshes=True),
        "labels-of-three": Case(MetaClip2ForImageClassification, images(), num_labels=3, vision_config=dict(num_channels=1)),
    },
    published={
        "worldwide-huge-quickgelu": {
            "architectures": ["MetaClip2Model"], "dtype": "float32", "initializer_factor": 1.0, "logit_scale_init_value": 2.6592,
            "projection_dim": 1024, "transformers_version": "4.56.0.dev0",
            "text_config": {
                "attention_dropout": 0.0, "bos_token_id": 0, "dtype": "float32", "eos_token_id": 2, "hidden_act": "quick_gelu",
                "hidden_size": 1024, "initializer_factor": 1.0, "initializer_range": 0.02, "intermediate_size": 4096,
                "layer_norm_eps": 1e-05, "max_position_embeddings": 77, "model_type": "metaclip_2_text_model",
                "num_attention_heads": 16, "num_hidden_layers": 24, "projection_dim": 1024, "vocab_size": 901629,
            },
            "vision_config": {
                "attention_dropout": 0.0, "dtype": "float32", "hidden_act": "quick_gelu", "hidden_size": 1280,
                "image_size": 224, "initializer_factor": 1.0, "initializer_range": 0.02, "intermediate_size": 5120,
                "layer_norm_eps": 1e-05, "model_type": "metaclip_2_vision_model", "num_attention_heads": 16,
                "num_channels": 3, "num_hidden_layers": 32, "patch_size": 14, "projection_dim": 1024,
            },
        },
        "text-alone": {"text_config": {"hidden_size": 384, "num_attention_heads": 6}, "torch_dtype": "float16"},
    },
)
