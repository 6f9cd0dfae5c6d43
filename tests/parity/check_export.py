"""Loads with transformers what the parity test trained and exported: no key missing or unexpected, the same logits.

usage: check_export.py FOLDER
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file


def check(folder):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "exported", dtype=torch.float32, output_loading_info=True
    )
    problems = [f"{kind}: {sorted(map(str, names))}" for kind, names in report.items() if names]
    trained = load_file(folder / "trained.safetensors")
    with torch.no_grad():
        difference = (model(trained["input_ids"]).logits - trained["logits"]).abs().max().item()
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
