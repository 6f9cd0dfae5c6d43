"""Loads the parity test's trained and exported models with transformers: no key missing or unexpected, the same logits.

usage: check_export.py --cases CASES EXPORTS FAMILY...
"""

import argparse
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

import oracle


def check(folder, classes):
    config = json.loads((folder / "exported" / "config.json").read_text())
    model_class = classes[config["architectures"][0]]
    model, report = model_class.from_pretrained(folder / "exported", dtype=torch.float32, output_loading_info=True)
    problems = [f"{kind}: {sorted(map(str, names))}" for kind, names in report.items() if names]
    batch = load_file(folder / "batch.safetensors")
    logits, _ = oracle.compute(model, batch)
    trained = load_file(folder / "trained.safetensors")["logits"]
    difference = (logits.detach() - trained) / trained.abs().max().clamp(min=1)  # relative for large logits
    if (mask := batch.get("attention_mask")) is not None and logits.shape[:2] == mask.shape:
        difference = difference[mask.bool()]
    difference = difference.abs().max().item()
    if not difference <= 1e-5:
        problems.append(f"logits differ by {difference}")
    print(f"{folder.name:32} {difference:.1e} {'; '.join(problems) or 'ok'}")
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("exports", type=pathlib.Path)
    parser.add_argument("families", nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    families = [oracle.load_family(name, arguments.cases) for name in arguments.families]
    models = [model for family in families for model in (*family.models, *(case.model for case in family.cases.values()))]
    classes = {model.__name__: model for model in models if model}
    folders = sorted(path for path in arguments.exports.iterdir() if path.is_dir())
    results = [check(folder, classes) for folder in folders]
    if not results or not all(results):
        sys.exit(f"{results.count(False)} of {len(results)} exports do not load as they were trained")


if __name__ == "__main__":
    main()
