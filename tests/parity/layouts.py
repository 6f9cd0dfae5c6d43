"""Small copies of folders as published on model hubs: names of tensors, keys of config.json, files of tokenizers.

usage: layouts.py write FOLDERS    writes a folder for each, and transformers' outputs for it
       layouts.py check FOLDERS    loads layouts_test's outputs with transformers
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable

import torch
import transformers
from safetensors.torch import load_file, save_file

import oracle
from layout_table import LAYOUTS
from layout_tokenizers import write_tokenizer

# Sizes for published configs; keys that a config does not have are left out.
SIZES = dict(
    vocab_size=96, hidden_size=32, n_embd=32, n_embed=32, d_model=32, intermediate_size=48, d_ff=48, d_kv=6, num_hidden_layers=2,
    n_layer=2, num_layers=2, num_decoder_layers=2, num_attention_heads=4, n_head=4, num_heads=4, num_key_value_heads=2, head_dim=8,
    max_position_embeddings=64, n_positions=64, n_ctx=64, image_size=12, patch_size=4, max_window_layers=2,
    dim=32, hidden_dim=48, n_layers=2, n_heads=4, num_kv_heads=2, ffn_hidden_size=48, encoder_layers=2, decoder_layers=2,
    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, position_buckets=8,
)
CONVERTED = {"bert-base-uncased", "gpt2", "bert-base-german-cased"}  # also written as pytorch_model.bin
SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id", "cls_token_id", "sep_token_id")


def shrunk(published):
    """The config with small sizes under its existing keys."""
    config = {}
    for key, value in published.items():
        if key in SIZES and value is not None:
            same_heads = key == "num_key_value_heads" and value == published.get("num_attention_heads")
            value = SIZES["num_attention_heads"] if same_heads else SIZES[key]
        elif key in SPECIAL_IDS and value is not None:
            value = [id % SIZES["vocab_size"] for id in value] if isinstance(value, list) else value % SIZES["vocab_size"]
        elif key == "id2label" and len(value) > 9:
            value = dict(list(value.items())[:5])
        elif key.endswith("_config") and isinstance(value, dict):
            value = shrunk(value)
        config[key] = value
    return config


def write(name, layout, folder):
    family = oracle.load_family(layout.family, pathlib.Path(__file__).parent / "cases")
    oracle.seed("layouts", name)
    folder.mkdir(parents=True)
    published = {"architectures": [layout.model.__name__], "model_type": family.config.model_type, **family.published[layout.published]}
    config = {key: value for key, value in {**shrunk(published), **layout.config}.items() if key not in layout.without}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    write_tokenizer(folder, layout.tokenizer)

    model = oracle.build(layout.model, family.config.from_pretrained(folder))
    if layout.prepare:
        layout.prepare(model)
    oracle.randomize(model, family.offset_norms)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(layout.dtype).float()
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        tensors = load_file(f"{saved}/model.safetensors")
    tensors = layout.tensors(tensors)
    tensors = {key: (tensor.to(layout.dtype) if tensor.is_floating_point() else tensor).clone() for key, tensor in tensors.items()}
    write_tensors(folder, tensors, layout)

    loaded, report = layout.model.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        unexplained = {key for key in report[kind] if not key.startswith("pooler.")} if layout.lacks_pooler else report[kind]
        assert not unexplained, f"{name}: {kind} {unexplained}"
    entry = layout.head or layout.model
    if layout.head:
        _, report = entry.from_pretrained(folder, output_loading_info=True)
    batch = layout.batch(loaded.config)
    save_file(batch, folder / "batch.safetensors")
    # Buffers, and DeepSeek-V3's multi-token prediction modules, are ignored silently.
    ignored = sorted(key for key in report["unexpected_keys"] if not key.endswith(("masked_bias", "eh_proj.weight")))
    flags = {"new_head": layout.head is not None, "class": entry.__name__, "ignored": ignored}
    (folder / "layout.json").write_text(json.dumps(flags))
    if layout.head:
        return
    with torch.no_grad():
        logits, built = (oracle.compute(each.train(False), batch)[0] for each in (loaded, model))
    assert torch.allclose(logits, built, atol=1e-5), f"{name}: transformers reads another model than it built"
    save_file({"logits": logits.contiguous()}, folder / "expected.safetensors")


def write_tensors(folder, tensors, layout):
    """One file, or two with an index; in a folder that has both, the shards hold other values."""
    if layout.files != "shards":
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    if layout.files == "single":
        return
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        other = 0.5 if layout.files == "both" else 1.0
        save_file({key: tensors[key] * other for key in part}, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_bin(folder):
    """The folder in the format of old releases."""
    (folder / "bin").mkdir()
    shutil.copy(folder / "config.json", folder / "bin")
    torch.save(load_file(folder / "model.safetensors"), folder / "bin" / "pytorch_model.bin")


def check_conversion(name, folder):
    """Runs the Python code that an error says to run."""
    if (folder / "bin" / "model.safetensors").exists():
        return False
    exec((folder / "bin" / "advice.txt").read_text().split("python3 -c '")[1].removesuffix("'"), {})
    original, converted = (
        {key.removeprefix("transformer."): tensor for key, tensor in load_file(path / "model.safetensors").items()} for path in (folder, folder / "bin")
    )
    shared = original.keys() & converted.keys()
    print(f"{name:40} converted: {len(shared)} of {len(original)} tensors")
    return len(shared) > 0.9 * len(original) and all(torch.equal(original[key], converted[key]) for key in shared)


def difference(logits, expected, batch):
    off = (logits.detach() - expected) / expected.abs().max().clamp(min=1)
    if (mask := batch.get("attention_mask")) is not None and logits.shape[:2] == mask.shape:
        off = off[mask.bool()]
    return off.abs().max().item()


def check(name, layout, folder):
    """The export before a training step equals the folder; the export after it gives the outputs of the trained model."""
    batch = load_file(folder / "batch.safetensors")
    model_class = layout.head or layout.model
    problems = []
    for exported in ("exported", "trained"):
        model, report = model_class.from_pretrained(folder / exported, dtype=torch.float32, output_loading_info=True)
        problems += [f"{exported}: {kind}: {sorted(map(str, keys))}" for kind, keys in report.items() if keys]
        if exported == "exported" and layout.head:
            original = layout.model.from_pretrained(folder, dtype=torch.float32).state_dict()
            body = model.base_model.state_dict()
            shared = original.keys() & body.keys()
            problems += [f"{exported}: {key} differs" for key in shared if not torch.equal(original[key], body[key])]
            problems += [f"{exported}: {key} is not the folder's" for key in body.keys() - shared]
            continue
        expected = load_file(folder / ("expected.safetensors" if exported == "exported" else "trained.safetensors"))["logits"]
        with torch.no_grad():
            logits, _ = oracle.compute(model.train(False), batch)
        off = difference(logits, expected, batch)
        if not off <= 1e-5:
            problems.append(f"{exported}: logits differ by {off}")
    if not layout.head:
        for file in folder.iterdir():
            if file.name.startswith(("tokenizer", "vocab", "merges", "special_tokens")):
                copy = folder / "exported" / file.name
                if not copy.exists() or copy.read_bytes() != file.read_bytes():
                    problems.append(f"exported: {file.name} is not the folder's")
    print(f"{name:40} {'; '.join(problems) or 'ok'}")
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("folders", type=pathlib.Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    chosen = {name: layout for name, layout in LAYOUTS.items() if arguments.only in name}
    if arguments.what == "write":
        shutil.rmtree(arguments.folders, ignore_errors=True)
        for name, layout in chosen.items():
            write(name, layout, arguments.folders / name)
        for name in CONVERTED & chosen.keys():
            write_bin(arguments.folders / name)
        return
    failed = [name for name, layout in chosen.items() if not check(name, layout, arguments.folders / name)]
    failed += [name for name in CONVERTED & chosen.keys() if not check_conversion(name, arguments.folders / name)]
    if failed or not chosen:
        sys.exit(f"{len(failed)} of {len(chosen)} layouts are exported with differences: {', '.join(failed)}")


if __name__ == "__main__":
    main()
