#!/usr/bin/env python3
"""Times modgen and modcheck on a copy of this project's specs: medians of several runs, wall clock.

    benchmarks/generator.py [--bin build/release/bin] [--runs 9]

Costs about a minute, of which most is one build of the precompiled prelude in a cache of its own.
"""
import argparse
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent


def wall(command, **options):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - begin


def report(name, seconds, target):
    milliseconds = [1000 * one for one in seconds]
    print(f"{name:44} {statistics.median(milliseconds):8.1f} ms  (least {min(milliseconds):.1f})  target {target}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", type=pathlib.Path, default=PROJECT / "build/release/bin")
    arguments.add_argument("--runs", type=int, default=9)
    options = arguments.parse_args()
    modgen, modcheck = options.bin / "modgen", options.bin / "modcheck"

    with tempfile.TemporaryDirectory() as folder:
        root, cache = pathlib.Path(folder) / "tree", f"--cache-dir={folder}/cache"
        (root / "modular").mkdir(parents=True)
        for spec in sorted((PROJECT / "modular").glob("*.h")):
            if spec.name != "modular.h":
                shutil.copy(spec, root / "modular" / spec.name)
        every = [modgen, "--all", f"--root={root}", cache]

        report("modgen --all, precompiled prelude from nothing", [wall(every)], "reported")

        def edited(specs, command):
            times = []
            for run in range(options.runs):
                for spec in specs:
                    path = root / "modular" / spec
                    path.write_text(path.read_text().replace("namespace modular::", f"// {run}\nnamespace modular::", 1))
                times.append(wall(command))
            return times

        report("modgen gemma, after an edit", edited(["gemma.h"], [modgen, "gemma", f"--root={root}", cache]), "500 ms")
        report("modgen --all, after an edit of the base", edited(["llama.h"], every), "700 ms")
        report("modgen --all, nothing changed", [wall(every) for _ in range(options.runs)], "30 ms")
        if modcheck.exists():
            check = [modcheck, f"--root={root}"]
            report("modcheck, a clean tree", [wall(check) for _ in range(options.runs)], "10 ms")
            report("modcheck --full", [wall(check + ["--full", cache]) for _ in range(options.runs)], "1000 ms")


if __name__ == "__main__":
    main()
