"""Writes tiny random models of transformers, a batch for each, and what transformers computes: logits, loss and gradients.

usage: generate.py FOLDER FAMILY...

FOLDER/<case>/ then holds config.json and model.safetensors as transformers saves them, batch.safetensors and expected.safetensors.
"""

import copy
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

VOCAB, BATCH, SEQ = 96, 4, 24
CONFIGS = {
    "llama": transformers.LlamaConfig,
    "mistral": transformers.MistralConfig,
    "gemma": transformers.GemmaConfig,
}
SMALL = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)


def rope(kind, **settings):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=1000.0, **settings))


# What transformers reads as rotary settings of each kind; sequences are longer than the original context of all of them.
ROPE = {
    "theta": rope("default"),
    "linear": rope("linear", factor=2.5),
    "dynamic": dict(max_position_embeddings=16, **rope("dynamic", factor=3.0)),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16),
    "yarn-all": rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=2.0, mscale=0.8,
        mscale_all_dim=0.5, truncate=False,
    ),
    "yarn-attention": rope("yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.2),
    "longrope-long": rope(
        "longrope", factor=4.0, original_max_position_embeddings=16, short_factor=[1.0, 1.1, 1.2, 1.3],
        long_factor=[1.0, 2.0, 3.0, 5.0],
    ),
    "longrope-short": rope(
        "longrope", original_max_position_embeddings=32, short_factor=[1.0, 1.1, 1.2, 1.3],
        long_factor=[1.0, 2.0, 3.0, 5.0],
    ),
    "llama3": rope(
        "llama3", factor=8.0, original_max_position_embeddings=32, low_freq_factor=1.0, high_freq_factor=4.0
    ),
}

# case: settings of the config, beside SMALL. Keys that begin with "_" say how the case is saved or which batch it gets.
CASES = {
    "llama": {
        "plain": dict(num_key_value_heads=4),
        "grouped": dict(),
        "one-key-head": dict(num_key_value_heads=1, head_dim=16),
        "biases": dict(attention_bias=True, mlp_bias=True),
        "tied": dict(tie_word_embeddings=True),
        "tied-biases": dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
        "padding-token": dict(pad_token_id=5),
        "gelu": dict(hidden_act="gelu"),
        "padded-left": dict(_padding="left"),
        "padded-right": dict(_padding="right", attention_bias=True),
        "positions": dict(_positions=True),
        "sharded": dict(_max_shard_size="20KB"),
        "bfloat16": dict(_dtype=torch.bfloat16),
        "float16": dict(_dtype=torch.float16),
        "old-config": dict(_old_config=True, **ROPE["llama3"]),
        "base-prefix-stripped": dict(_strip_prefix=True),
        **{f"rope-{name}": settings for name, settings in ROPE.items()},
    },
    "mistral": {
        "window": dict(sliding_window=7),
        "window-padded-left": dict(sliding_window=7, _padding="left"),
        "window-padded-right": dict(sliding_window=5, _padding="right"),
        "no-window": dict(sliding_window=None),
        "wide-window": dict(sliding_window=4096),
        "tied": dict(tie_word_embeddings=True, sliding_window=9),
        "wide-heads": dict(head_dim=16, num_key_value_heads=1, sliding_window=9),
        "rope-yarn": dict(sliding_window=9, **ROPE["yarn"]),
        "sharded": dict(sliding_window=9, _max_shard_size="20KB"),
    },
    "gemma": {
        "plain": dict(head_dim=16),
        "untied": dict(tie_word_embeddings=False),
        "biases": dict(attention_bias=True),
        "one-key-head": dict(num_key_value_heads=1, head_dim=16),
        "padded-left": dict(_padding="left"),
        "padded-right": dict(_padding="right", tie_word_embeddings=False),
        "rope-linear": dict(**ROPE["linear"]),
        "bfloat16": dict(_dtype=torch.bfloat16),
    },
}


def randomize(model):
    """Every value counts: biases and norm weights too."""
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2)
        if "norm" in name and model.config.model_type != "gemma":
            parameter.data += 1.0


def make_batch(settings):
    batch = {"input_ids": torch.randint(0, VOCAB, (BATCH, SEQ))}
    batch["labels"] = batch["input_ids"].clone()
    batch["labels"][torch.rand(BATCH, SEQ) < 0.15] = -100
    if side := settings.get("_padding"):
        mask = torch.ones(BATCH, SEQ, dtype=torch.int64)
        for row, padding in enumerate([0, 3, 10, 1]):
            where = slice(0, padding) if side == "left" else slice(SEQ - padding, SEQ)
            mask[row, where] = 0
        batch["attention_mask"] = mask
        batch["labels"][mask == 0] = -100
    if settings.get("_positions"):
        batch["position_ids"] = torch.stack([torch.arange(SEQ) + start for start in (0, 3, 17, 1)])
    return batch


def rewrite_config(path):
    """The style of 2024: rotary settings spread over two keys, and a dtype under its first name."""
    config = json.loads(path.read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    config["torch_dtype"] = config.pop("dtype")
    config["head_dim"] = None
    path.write_text(json.dumps(config))


def strip_prefix(path):
    tensors = {name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, {"format": "pt"})


def generate(folder, family, case, settings):
    torch.manual_seed(hash_of(f"{family}-{case}"))
    config = CONFIGS[family](**{**SMALL, **{key: value for key, value in settings.items() if key[0] != "_"}})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomize(model)
    saved = model
    if dtype := settings.get("_dtype"):
        saved = copy.deepcopy(model).to(dtype)  # whose rotary frequencies are rounded too: the oracle stays another model
        model.load_state_dict(saved.state_dict())
    folder.mkdir(parents=True)
    saved.save_pretrained(folder, max_shard_size=settings.get("_max_shard_size", "5GB"))
    if settings.get("_old_config"):
        rewrite_config(folder / "config.json")
    if settings.get("_strip_prefix"):
        strip_prefix(folder / "model.safetensors")

    batch = make_batch(settings)
    outputs = model(**batch)
    outputs.loss.backward()
    expected = {f"gradients.{name}": parameter.grad for name, parameter in model.named_parameters()}
    expected |= {"logits": outputs.logits.detach(), "loss": outputs.loss.detach()}
    save_file(batch, folder / "batch.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, folder / "expected.safetensors")


def hash_of(text):
    return int.from_bytes(text.encode()[-7:], "little")


def main():
    root = pathlib.Path(sys.argv[1])
    shutil.rmtree(root, ignore_errors=True)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    count = 0
    for family in sys.argv[2:]:
        for case, settings in CASES[family].items():
            generate(root / f"{family}-{case}", family, case, settings)
            count += 1
    print(f"{count} cases in {root}")


if __name__ == "__main__":
    main()
