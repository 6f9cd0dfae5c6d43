#!/usr/bin/env python3
"""Compares two builds of modrun to the bit: what a change that must not change any number is checked with.

usage: equal_bits.py record HASHES --modrun build/ci/bin/modrun     before the change; a minute on two cores
       equal_bits.py compare HASHES --modrun build/ci/bin/modrun    after it: exits with 1 and lists what differs

Forward outputs and gradients of every family's small published folders, and for 12 of them on 6 meshes: losses and gradient norms of three
steps, the tensors of the last checkpoint, and the exported folder. The folders are those that `ctest -R layouts.write` makes. The hashes hold
for one machine: kernels differ between CPUs.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

MESHES = {  # ranks, overrides
    "one": (1, []),
    "ddp": (2, ["parallel.dp_replicate=2"]),
    "fsdp": (3, ["parallel.recompute='full'"]),
    "tp": (2, ["parallel.tp=2"]),
    "pp": (2, ["parallel.pp=2", "train.micro_batches=2"]),
    "tp-fsdp": (4, ["parallel.tp=2", "train.micro_batches=2", "parallel.bf16=true"]),
}
TRAINED = ["Llama-3.2-1B", "gemma-2b", "gemma-3-1b", "Qwen3-0.6B", "Mixtral-8x7B", "DeepSeek-V2-Lite", "Mamba-Codestral-7B", "Jamba-v0.1",
           "gpt2", "bert-base-cased", "t5-small", "vit-base-patch16-224"]


def tensors(path):
    """(name, dtype, shape, bytes) of the tensors in a safetensors file, by name."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    for name, info in sorted(header.items()):
        begin, end = info["data_offsets"]
        yield name, info["dtype"], info["shape"], data[8 + length + begin : 8 + length + end]


def compute_hash(parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else json.dumps(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def hash_tensors(paths):
    return compute_hash(part for path in sorted(paths) for part in (path.name, *(value for tensor in tensors(path) for value in tensor)))


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(last)[:300]}")


def forward(program, folder, scratch):
    out = scratch / f"{folder.name}.safetensors"
    run(program, "forward", "--checkpoint", folder, "--inputs", folder / "batch.safetensors", "--outputs", out, "--gradients")
    return {"outputs": hash_tensors([out])}


def train(program, folder, mesh, scratch):
    ranks, overrides = MESHES[mesh]
    target = scratch / f"{folder.name}-{mesh}"
    settings = [f"model.checkpoint='{folder}'", "data.format='examples'", f"data.paths=['{folder / 'batch.safetensors'}']",
                "train.steps=3", "train.batch_size=12", "optim.lr=1e-3", "optim.max_grad_norm=0.5", "checkpoint.keep=0",
                f"train.dir='{target}'", *overrides]
    run(program, "--nproc-per-node", ranks, "train", *(part for setting in settings for part in ("--set", setting)))
    steps = [json.loads(line) for line in (target / "metrics.jsonl").read_text().splitlines()]
    run(program, "export", target / "checkpoints", target / "exported")
    exported = sorted(path for path in (target / "exported").iterdir())
    return {
        "losses": [[step["step"], step["loss"], step["grad_norm"]] for step in steps if "grad_norm" in step],
        "checkpoint": hash_tensors((target / "checkpoints").glob("step-*3/*.safetensors")),
        "export": compute_hash(part for path in exported for part in
                          ((path.name, hash_tensors([path])) if path.suffix == ".safetensors" else (path.name, path.read_bytes()))),
    }


def measure(program, folders):
    stored = [folder for folder in folders if not json.loads((folder / "layout.json").read_text())["new_head"]]
    cases = {f"forward {folder.name}": (forward, folder) for folder in stored}
    by_name = {folder.name: folder for folder in folders}
    cases |= {f"train {name} on {mesh}": (train, by_name[name], mesh) for name in TRAINED for mesh in MESHES}
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(job, program, *arguments, pathlib.Path(scratch)) for name, (job, *arguments) in cases.items()}
        results = {}
        for number, (name, job) in enumerate(jobs.items(), 1):
            try:
                results[name] = job.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                results[name] = {"error": str(error).replace(scratch, "")}
            print(f"\r{number}/{len(jobs)} {name:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("hashes", type=pathlib.Path)
    parser.add_argument("--modrun", required=True)
    parser.add_argument("--folders", type=pathlib.Path, default=pathlib.Path("build/ci/tests/parity/layouts"))
    arguments = parser.parse_args()
    folders = sorted(path.parent for path in arguments.folders.resolve().glob("*/batch.safetensors"))
    missing = set(TRAINED) - {folder.name for folder in folders}
    if missing:
        sys.exit(f"{arguments.folders} lacks {', '.join(sorted(missing))}: run `ctest -R layouts.write` first, or give --folders")
    results = measure(pathlib.Path(arguments.modrun).resolve(), folders)
    failed = {name: result["error"] for name, result in results.items() if "error" in result}
    for name, error in failed.items():
        print(f"{name}: {error}")
    if arguments.command == "record":
        arguments.hashes.write_text(json.dumps(results, indent=1))
        sys.exit(1 if failed else 0)
    before = json.loads(arguments.hashes.read_text())
    differing = [f"{name}: {part} differs" for name in sorted(before.keys() | results.keys())
                 for part in sorted(before.get(name, {}).keys() | results.get(name, {}).keys())
                 if before.get(name, {}).get(part) != results.get(name, {}).get(part)]
    print("\n".join(differing) or f"{len(results)} cases are equal to the bit")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
