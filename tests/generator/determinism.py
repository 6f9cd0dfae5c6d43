"""Generates the catalogue again and again under other circumstances: every run must give the same bytes, files and records.

usage: determinism.py --modgen MODGEN [--runs N]

What changes from run to run: the order in which families are named, the folder and its depth, the current folder, locale, umask,
address-space randomization, and how many processes work.
"""

import argparse
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOCALES = ["C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"]  # one that is not installed counts as C
UMASKS = [0o022, 0o077, 0o000]
FOLDERS = ["tree", "a/deeper/tree", "with blanks/and ümlauts"]


def generated(modgen, run, folder):
    """The bytes of every file that run number `run` writes, by name."""
    chance = random.Random(run)
    tree = folder / FOLDERS[run % len(FOLDERS)]
    shutil.copytree(ROOT / "modular", tree / "modular", ignore=shutil.ignore_patterns("modular.h"))
    families = [path.stem for path in (tree / "modular").glob("*.h")]
    chance.shuffle(families)
    command = [modgen, "--root", ".", "--shipped", ROOT, "--jobs", str(1 + run % 3), *families]
    if run % 2 == 1:
        command = ["setarch", "-R", *command]
    environment = dict(os.environ, LC_ALL=LOCALES[run % len(LOCALES)], MALLOC_PERTURB_=str(run % 256))
    subprocess.run(command, cwd=tree, env=environment, umask=UMASKS[run // 2 % len(UMASKS)], check=True)
    return {path.name: path.read_bytes() for path in sorted((tree / "generated").iterdir())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modgen", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    modgen = arguments.modgen.resolve()

    first, differing = None, set()
    for run in range(arguments.runs):
        with tempfile.TemporaryDirectory() as folder:
            files = generated(modgen, run, pathlib.Path(folder))
        first = first or files
        for name in set(itertools.chain(first, files)):
            if first.get(name) != files.get(name):
                differing.add(name)
                print(f"run {run}: {name} differs")
    print(f"{arguments.runs} runs, {len(first)} files, {len(differing)} of them not always the same")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
