import torch
from safetensors.torch import load_file, save_file
from transformers import LlavaConfig, LlavaForConditionalGeneration

from oracle import BATCH, SEQ, SMALL_DECODER, SMALL_PAIR, VOCAB, Case, Family, tokens

PLACEHOLDER = VOCAB - 1


def texts_with_images(counts=(1, 0, 1, 2), padding=None):
    """A batch of texts with this many images per row; without images if it is 0."""

    def make(config):
        batch = tokens(padding)(config.text_config)
        batch["input_ids"] %= PLACEHOLDER
        features = (config.vision_config.image_size // config.vision_config.patch_size) ** 2
        features += config.vision_feature_select_strategy == "full"
        if sum(counts) == 0:
            return batch
        for row, count in enumerate(counts):
            mask = batch.get("attention_mask", torch.ones(BATCH, SEQ))[row]
            start = int(mask.argmax()) + 1
            batch["input_ids"][row, start : start + count * features] = PLACEHOLDER
        batch["labels"][batch["input_ids"] == PLACEHOLDER] = -100
        size = config.vision_config.image_size
        batch["pixel_values"] = torch.randn(sum(counts), config.vision_config.num_channels, size, size)
        return batch

    return make


def towers_own_prefix(folder):
    """Renames tensors as in files from before the tower lost the prefix of its class."""
    tensors = load_file(folder / "model.safetensors")
    renamed = {name.replace("vision_tower.", "vision_tower.vision_model."): tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})


FAMILY = Family(
    config=LlavaConfig,
    models=[LlavaForConditionalGeneration],
    small=dict(
        text_config=dict(SMALL_DECODER, model_type="llama"),
        vision_config=dict(SMALL_PAIR["vision_config"], image_size=8, model_type="clip_vision_model"),
        image_token_index=PLACEHOLDER,
    ),
    wide=dict(
        text_config=dict(model_type="llama", hidden_size=128, intermediate_size=160, head_dim=32),
        vision_config=dict(model_type="clip_vision_model", hidden_size=144, intermediate_size=192),
    ),
    cases={
        "images": Case(batch=texts_with_images(), meshes=True),
        "padded": Case(
            batch=texts_with_images((1, 1, 1, 1), padding="left"), vision_feature_select_strategy="full",
            vision_feature_layer=-1, projector_hidden_act="gelu_new", multimodal_projector_bias=False, meshes=True, export=True,
        ),
        "tied": Case(
            batch=texts_with_images((1, 0, 0, 1)), text_config=dict(tie_word_embeddings=True), vision_feature_layer=1,
            rewrite=towers_own_prefix, meshes=True,
        ),
        "without-images": Case(batch=texts_with_images((0, 0, 0, 0))),
    },
    published={
        "1.5-7b-hf": {
            "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100, "image_token_index": 32000,
            "pad_token_id": 32001, "projector_hidden_act": "gelu", "torch_dtype": "float16", "tie_word_embeddings": False,
            "transformers_version": "4.36.0.dev0", "vision_feature_layer": -2, "vision_feature_select_strategy": "default",
            "vocab_size": 32064, "image_seq_length": 576,
            "text_config": {
                "_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096,
                "model_type": "llama", "rms_norm_eps": 1e-05, "torch_dtype": "float16", "vocab_size": 32064,
            },
            "vision_config": {
                "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "model_type": "clip_vision_model",
                "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768, "vocab_size": 32000,
            },
        },
        # Missing parts are those of CLIP's class, or of the family's if everything is missing.
        "towers-in-part": {
            "vision_config": {"model_type": "clip_vision_model", "image_size": 224, "patch_size": 16},
            "text_config": {"model_type": "llama", "rope_theta": 500000.0}, "image_token_index": 5,
        },
        "towers-missing": {"torch_dtype": "bfloat16", "text_config": None},
    },
)
