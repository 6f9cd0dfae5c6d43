"""Loads with transformers what the parity test trained and exported: no key missing or unexpected, the same logits.

usage: check_export.py FOLDER
"""

import importlib
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

import oracle


def find_class(config):
    """A class of transformers, or of the family's own oracle."""
    name = config["architectures"][0]
    if found := getattr(transformers, name, None):
        return found
    return next(model for model in importlib.import_module(f"cases.{config['model_type']}").FAMILY.models if model.__name__ == name)


def check(folder):
    config = json.loads((folder / "exported" / "config.json").read_text())
    model_class = find_class(config)
    model, report = model_class.from_pretrained(folder / "exported", dtype=torch.float32, output_loading_info=True)
    problems = [f"{kind}: {sorted(map(str, names))}" for kind, names in report.items() if names]
    batch = load_file(folder / "batch.safetensors")
    logits, _ = oracle.compute(model, batch)
    difference = logits.detach() - load_file(folder / "trained.safetensors")["logits"]
    if (mask := batch.get("attention_mask")) is not None and logits.shape[:2] == mask.shape:
        difference = difference[mask.bool()]
    difference = difference.abs().max().item()
    if not difference <= 1e-5:
        problems.append(f"logits differ by {difference}")
    print(f"{folder.name:32} {difference:.1e} {'; '.join(problems) or 'ok'}")
    return not problems


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    folders = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir())
    results = [check(folder) for folder in folders]
    if not results or not all(results):
        sys.exit(f"{results.count(False)} of {len(results)} exports do not load as they were trained")


if __name__ == "__main__":
    main()
