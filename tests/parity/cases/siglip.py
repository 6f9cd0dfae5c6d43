from transformers import SiglipConfig, SiglipForImageClassification, SiglipModel

from oracle import SMALL_PAIR, Case, Family, images, pairs

FAMILY = Family(
    config=SiglipConfig,
    models=[SiglipModel, SiglipForImageClassification],
    # A text's embedding has the same size as an image's.
    small=dict(
        text_config=dict(SMALL_PAIR["text_config"], projection_size=24), vision_config=SMALL_PAIR["vision_config"]
    ),
    wide=dict(
        text_config=dict(hidden_size=128, intermediate_size=160, projection_size=144),
        vision_config=dict(hidden_size=144, intermediate_size=192),
    ),
    rounds_elsewhere=True,  # embeddings of pairs are compared in float32
    cases={
        "pairs": Case(batch=pairs(), meshes=True),
        "pairs-padded": Case(
            batch=pairs(padding="right"), meshes=True, text_config=dict(hidden_act="gelu", layer_norm_eps=1e-5),
            vision_config=dict(num_channels=1),
        ),
        "pairs-positions": Case(batch=pairs(positions=True), vision_config=dict(hidden_act="relu", num_hidden_layers=1)),
        "pairs-dropout": Case(
            batch=pairs(), text_config=dict(attention_dropout=0.3), vision_config=dict(attention_dropout=0.2), drops=True,
        ),
        "labels": Case(SiglipForImageClassification, images(), meshes=True),
        "labels-of-three": Case(SiglipForImageClassification, images(), num_labels=3, initializer_factor=2.0),
    },
    published={
        "base-patch16-224": {
            "architectures": ["SiglipModel"], "initializer_factor": 1.0, "torch_dtype": "float32", "transformers_version": "4.37.0.dev0",
            "text_config": {"model_type": "siglip_text_model", "vocab_size": 32000},
            "vision_config": {"model_type": "siglip_vision_model"},
        },
        "so400m-patch14-384": {
            "architectures": ["SiglipModel"], "initializer_factor": 1.0, "torch_dtype": "float32",
            "text_config": {
                "hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_text_model", "num_attention_heads": 16,
                "num_hidden_layers": 27,
            },
            "vision_config": {
                "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "model_type": "siglip_vision_model",
                "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
            },
        },
    },
)
