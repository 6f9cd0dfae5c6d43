"""Mutates specs of the catalogue and of the golden families at random, and sees what modgen makes of them.

usage: hostile.py --modgen MODGEN [--count N] [--first N] [--seconds S] [--seed S] [--jobs J] [--keep FOLDER] [--compile CLANG…]

Each mutant has one to three changes: a token or a line dropped, doubled, swapped with another of the file, or replaced by one of
another family. A quarter of the golden trees are generated whole. modgen must accept or reject a mutant within its processor time and
memory; a error names a place and leaves no file, and what is accepted compiles where --compile gives the command that does (it is
called with the file's name after it). Clang's own crashes over what is not C++ are survived; one of modgen's own code is a defect. A
mutant depends on the seed and its number alone: --first with --count 1 repeats one. Mutants that show a defect are kept in FOLDER.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\w+|::|->|\s+|.', re.DOTALL)
LOCATED = re.compile(r"^\S*modular/\w+\.h:\d+:\d+: error: ", re.MULTILINE)
OWN_FRAME = re.compile(r"^ *#\d+ 0x\w+ modgen::", re.MULTILINE)
BATCH = 30  # outputs in one translation unit: most of a compilation's time goes into what they share


def trees():
    """Folders with specs: folder and the texts of each tree."""
    for folder in [ROOT, *sorted((ROOT / "tests/generator/golden").iterdir())]:
        specs = {path.stem: path.read_text() for path in sorted((folder / "modular").glob("*.h")) if path.stem != "modular"}
        yield folder, specs


def pieces(text, lines):
    return text.splitlines(keepends=True) if lines else TOKEN.findall(text)


def alike(part, other):
    """Whether both are words or neither is: what is not breaks the text in a way that the parser sees at once."""
    return part[0].isalnum() == other[0].isalnum()


def mutated(chance, text, foreign):
    """`text` with one change; `foreign` is another family's text."""
    lines = chance.random() < 0.4
    parts = pieces(text, lines)
    places = [index for index, part in enumerate(parts) if not part.isspace() and not part.lstrip().startswith(("//", "/*"))]
    if len(places) < 2:
        return text
    at = chance.choice(places)
    kind = chance.choice(["drop", "double", "swap", "take"])
    if kind == "drop":
        parts[at] = ""
    elif kind == "double":
        parts[at] += ("" if lines else " ") + parts[at]
    elif kind == "swap":
        near = places[max(0, places.index(at) - 20) : places.index(at) + 20]
        other = chance.choice([index for index in near if lines or alike(parts[at], parts[index])])
        parts[at], parts[other] = parts[other], parts[at]
    else:
        others = [part for part in pieces(foreign, lines) if not part.isspace() and (lines or alike(parts[at], part))]
        parts[at] = chance.choice(others or [""])
    return "".join(parts)


def includers(specs, name):
    """`name` and the families whose specs include it, over any number of steps."""
    reached = {name}
    while True:
        more = {one for one, text in specs.items() if any(f'"modular/{other}.h"' in text for other in reached)} | reached
        if more == reached:
            return sorted(reached)
        reached = more


def get_code(text):
    """The tokens that a compiler sees."""
    return [part for part in TOKEN.findall(text) if not part.isspace() and not part.startswith(("//", "/*"))]


class Mutant:
    """One mutant, as the seed and its number say: a tree of specs, and the families that are generated from it."""

    all_trees = list(trees())

    def __init__(self, seed, number):
        chance = random.Random(f"{seed}/{number}")
        self.source, specs = self.all_trees[0] if chance.random() < 0.5 else chance.choice(self.all_trees)
        self.name = chance.choice(sorted(specs))
        text = specs[self.name]
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            _, others = chance.choice(self.all_trees)
            text = mutated(chance, text, others[chance.choice(sorted(others))])
        self.families = [chance.choice(includers(specs, self.name))]
        if self.source != ROOT and chance.random() < 0.25:
            self.families = sorted(specs)
        self.specs = {**specs, self.name: text}
        self.number = number

    def write(self, tree):
        (tree / "modular").mkdir(parents=True, exist_ok=True)
        for name, text in self.specs.items():
            # The catalogue's other specs are found where modgen's own are.
            if self.source != ROOT or name in (self.name, *self.families):
                (tree / f"modular/{name}.h").write_text(text)

    def changes_code(self, family, output):
        unchanged = self.source / "generated" / f"{family}.h"
        return not unchanged.exists() or get_code(unchanged.read_text()) != get_code(output)

    def __str__(self):
        return f"mutant {self.number}: {self.source.name}/{self.name}, generated {', '.join(self.families)}"


class Hostile:
    def __init__(self, arguments):
        self.arguments = arguments
        self.end = time.monotonic() + arguments.seconds

    def limit(self):
        arguments = self.arguments
        resource.setrlimit(resource.RLIMIT_CPU, (arguments.cpu, arguments.cpu + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if arguments.memory:
            resource.setrlimit(resource.RLIMIT_AS, (arguments.memory << 30, arguments.memory << 30))

    def run(self, number):
        """What became of one mutant: a word, what is wrong with that or nothing, and texts that are to compile."""
        if time.monotonic() > self.end:
            return "not run", "", []
        mutant = Mutant(self.arguments.seed, number)
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            tree = pathlib.Path(folder)
            mutant.write(tree)
            word, problem = self.judge(tree, mutant)
            outputs = []
            if word == "accepted" and self.arguments.compile:
                texts = {family: (tree / f"generated/{family}.h").read_text() for family in mutant.families}
                outputs = [text for family, text in texts.items() if mutant.changes_code(family, text)]
        return word, self.kept(mutant, problem) if problem else "", outputs

    def judge(self, tree, mutant):
        command = [self.arguments.modgen, "--root", tree, "--shipped", ROOT, "--jobs", "2", *mutant.families]
        environment = {**os.environ, "MODGEN_SHOW_CRASHES": "1"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", preexec_fn=self.limit, env=environment)
        written = sorted(path.name for path in (tree / "generated").glob("*"))
        said = done.stderr
        # Clang is called in a frame that recovers from its crashes: what stands above that in a stack is where it crashed.
        if OWN_FRAME.search(said.partition("CrashRecoveryContext::RunSafely")[0]) or "runtime error: " in said or "Sanitizer: " in said:
            return "fails", f"a crash or a sanitizer's report, exit code {done.returncode}:\n{said[:8000]}"
        if done.returncode == 2 and not written:
            return "rejected", "" if LOCATED.search(said) else f"rejected without a place:\n{said[-2000:]}"
        if done.returncode != 0 or written != sorted(f"{family}.{kind}" for family in mutant.families for kind in ("h", "lock")):
            return "fails", f"exit code {done.returncode}, files {written}:\n{said[-4000:]}"
        return "accepted", ""

    def kept(self, mutant, problem):
        problem = f"{mutant}: {problem}"
        if self.arguments.keep:
            folder = self.arguments.keep / f"{self.arguments.seed}-{mutant.number}"
            mutant.write(folder)
            (folder / "problem.txt").write_text(problem)
        return problem

    def compile(self, path):
        return subprocess.run([*self.arguments.compile, path], capture_output=True, text=True, errors="replace")

    def compile_all(self, outputs):
        """What is wrong with outputs, each with its mutant's number. They compile together, each in a namespace of its own; alone where
        that fails."""
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            together = pathlib.Path(folder) / "all.h"
            text = ""
            for index, (_, output) in enumerate(outputs):
                path = pathlib.Path(folder) / f"{index}.h"
                path.write_text(re.sub(r"\bmodular::(\w+) \{", rf"modular::\1_{index} {{", output))
                text += f'#include "{path}"\n'
            together.write_text(text)
            if self.compile(together).returncode == 0:
                return []
            problems = []
            for number, output in outputs:
                path = pathlib.Path(folder) / "alone.h"
                path.write_text(output)
                done = self.compile(path)
                if done.returncode != 0:
                    problems.append(self.kept(Mutant(self.arguments.seed, number), f"does not compile:\n{done.stderr[:3000]}"))
            return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modgen", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0, help="the first mutant's number")
    parser.add_argument("--seconds", type=float, default=7200, help="after which no further mutant is begun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cpu", type=int, default=20, help="seconds of processor time for one mutant")
    parser.add_argument("--memory", type=int, default=4, help="GiB of address space for one mutant; 0: as much as there is, for sanitizers")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--compile", nargs=argparse.REMAINDER, default=[])
    arguments = parser.parse_args()

    hostile = Hostile(arguments)
    counts, problems, waiting, compiled = collections.Counter(), 0, [], 0

    def report(new):
        nonlocal problems
        problems += len(new)
        for problem in new:
            print(problem, flush=True)

    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        numbers = range(arguments.first, arguments.first + arguments.count)
        for number, (word, problem, outputs) in zip(numbers, pool.map(hostile.run, numbers)):
            counts[word] += 1
            report([problem] if problem else [])
            waiting += [(number, output) for output in outputs]
            if len(waiting) >= BATCH or (waiting and number == numbers[-1]):
                compiled += len(waiting)
                report(hostile.compile_all(waiting))
                waiting = []
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())), f"; {compiled} compiled; {problems} with defects")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
