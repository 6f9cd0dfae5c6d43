"""Mutates specs of the catalogue and of the golden families at random, and sees what modgen makes of them.

usage: hostile.py --modgen MODGEN [--count N] [--seconds S] [--seed S] [--jobs J] [--keep FOLDER] [--compile CLANG… ]

Each mutant has one to three changes: a token or a line dropped, doubled, swapped with another of the file, or replaced by one of another
family. modgen must accept or refuse it within 30 seconds; a refusal names a place and leaves no file; what is accepted compiles, where
--compile gives the command that does (it is called with the file's name behind it). A mutant depends on the seed and its number alone.
Mutants that show a defect are kept in FOLDER.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 30  # seconds for one mutant
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\w+|::|->|\s+|.', re.DOTALL)
LOCATED = re.compile(r"^\S*modular/\w+\.h:\d+:\d+: error: ", re.MULTILINE)


def trees():
    """Folders with specs: name, folder and the texts of each tree."""
    for folder in [ROOT, *sorted((ROOT / "tests/generator/golden").iterdir())]:
        specs = {path.stem: path.read_text() for path in sorted((folder / "modular").glob("*.h")) if path.stem != "modular"}
        yield folder, specs


def pieces(text, lines):
    return text.splitlines(keepends=True) if lines else TOKEN.findall(text)


def mutated(chance, text, foreign):
    """`text` with one change; `foreign` is another family's text."""
    lines = chance.random() < 0.3
    parts = pieces(text, lines)
    places = [index for index, part in enumerate(parts) if not part.isspace()]
    if len(places) < 2:
        return text
    at = chance.choice(places)
    kind = chance.choice(["drop", "double", "swap", "take"])
    if kind == "drop":
        parts[at] = ""
    elif kind == "double":
        parts[at] += ("" if lines else " ") + parts[at]
    elif kind == "swap":
        # Near ones: what is far apart breaks the text in a way that the parser sees at once.
        near = places[max(0, places.index(at) - 20) : places.index(at) + 20]
        other = chance.choice(near)
        parts[at], parts[other] = parts[other], parts[at]
    else:
        parts[at] = chance.choice([part for part in pieces(foreign, lines) if not part.isspace()] or [""])
    return "".join(parts)


def includers(specs, name):
    """`name` and the families whose specs include it, over any number of steps."""
    reached = {name}
    while True:
        more = {one for one, text in specs.items() if any(f'"modular/{other}.h"' in text for other in reached)} | reached
        if more == reached:
            return sorted(reached)
        reached = more


class Hostile:
    def __init__(self, arguments):
        self.arguments = arguments
        self.trees = list(trees())
        self.end = time.monotonic() + arguments.seconds

    def run(self, number):
        """What became of one mutant: a word, and what is wrong with that or nothing."""
        if time.monotonic() > self.end:
            return "not run", ""
        chance = random.Random(f"{self.arguments.seed}/{number}")
        source, specs = self.trees[0] if chance.random() < 0.5 else chance.choice(self.trees)
        name = chance.choice(sorted(specs))
        text = specs[name]
        for _ in range(chance.randint(1, 3)):
            _, others = chance.choice(self.trees)
            text = mutated(chance, text, others[chance.choice(sorted(others))])
        family = chance.choice(includers(specs, name))
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            tree = pathlib.Path(folder)
            (tree / "modular").mkdir()
            for one in specs:
                (tree / f"modular/{one}.h").write_text(text if one == name else specs[one])
            word, problem = self.judge(tree, family)
            if problem and self.arguments.keep:
                kept = self.arguments.keep / f"{self.arguments.seed}-{number}-{family}"
                shutil.copytree(tree, kept, dirs_exist_ok=True)
                (kept / "problem.txt").write_text(f"{source.name}: {name}, as {family}\n{problem}\n")
            return word, f"mutant {number}: {source.name}/{name}, generated {family}: {problem}" if problem else ""

    def judge(self, tree, family):
        command = [self.arguments.modgen, "--root", tree, "--shipped", ROOT, "--jobs", "1", family]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return "hangs", f"no end within {LIMIT} seconds"
        written = sorted(path.name for path in (tree / "generated").glob("*"))
        if done.returncode == 2 and not written:
            return "refused", "" if LOCATED.search(done.stderr) else f"refused without a place:\n{done.stderr[-2000:]}"
        if done.returncode != 0 or written != [f"{family}.h", f"{family}.lock"]:
            return "fails", f"exit code {done.returncode}, files {written}:\n{done.stderr[-4000:]}"
        if not self.arguments.compile:
            return "accepted", ""
        unchanged = ROOT / "generated" / f"{family}.h"
        if unchanged.exists() and unchanged.read_text() == (tree / f"generated/{family}.h").read_text():
            return "accepted", ""
        compiled = subprocess.run([*self.arguments.compile, tree / f"generated/{family}.h"], capture_output=True, text=True, errors="replace")
        return "accepted", f"does not compile:\n{compiled.stderr[:3000]}" if compiled.returncode != 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modgen", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0, help="the first mutant's number")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--compile", nargs=argparse.REMAINDER, default=[])
    arguments = parser.parse_args()

    hostile = Hostile(arguments)
    counts, problems = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for word, problem in pool.map(hostile.run, range(arguments.first, arguments.first + arguments.count)):
            counts[word] += 1
            if problem:
                problems.append(problem)
                print(problem, flush=True)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())), f"; {len(problems)} with defects")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
