from transformers import Dinov2Config, Dinov2ForImageClassification

from oracle import SMALL_VISION, Case, Family, images

FAMILY = Family(
    config=Dinov2Config,
    models=[Dinov2ForImageClassification],
    small={key: value for key, value in SMALL_VISION.items() if key != "intermediate_size"},
    wide=dict(hidden_size=128, mlp_ratio=2, layerscale_value=0.3),
    cases={
        "labels": Case(batch=images(), meshes=True),
        "gated": Case(
            batch=images(), use_swiglu_ffn=True, qkv_bias=False, num_labels=3, mlp_ratio=3, use_mask_token=False,
            meshes=True, export=True,
        ),
        "dropout": Case(batch=images(), hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3, drops=True),
        # Positions are interpolated even if the number of patches is the same.
        "larger-images": Case(batch=images(20, 28), num_channels=1, meshes=True),
        "oblong-images": Case(batch=images(8, 18), image_size=16, layer_norm_eps=1e-5),
    },
    published={
        "base": {
            "apply_layernorm": True, "architectures": ["Dinov2Model"], "attention_probs_dropout_prob": 0.0, "drop_path_rate": 0.0,
            "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 768, "image_size": 518, "initializer_range": 0.02,
            "layer_norm_eps": 1e-06, "layerscale_value": 1.0, "mlp_ratio": 4, "num_attention_heads": 12, "num_channels": 3,
            "num_hidden_layers": 12, "out_features": ["stage12"], "out_indices": [12], "patch_size": 14, "qkv_bias": True,
            "reshape_hidden_states": True, "stage_names": ["stem"] + [f"stage{stage}" for stage in range(1, 13)],
            "torch_dtype": "float32", "transformers_version": "4.32.0.dev0", "use_swiglu_ffn": False,
        },
        "giant-imagenet1k-1-layer": {
            "architectures": ["Dinov2ForImageClassification"], "hidden_size": 1536, "image_size": 518, "num_attention_heads": 24,
            "num_hidden_layers": 40, "use_swiglu_ffn": True, "id2label": {str(label): str(label) for label in range(1000)},
        },
    },
)
