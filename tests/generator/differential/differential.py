"""Flattens random families and sees whether they mean what C++ says: a spec is valid C++, so it is its own oracle.

usage: differential.py --modgen MODGEN [--chains 75] [--seeds 1] [--jobs 2] [--keep FOLDER] [--reduce 3] …

A seed and a number make a chain: a root family and up to four that derive from it, one from the other, of plain values and small
tensors, whose names clash wherever C++ lets them. Each is compiled as written and as modgen flattens it; both make the same objects,
call the same methods, and print what these hold and return, to the last bit. By hand, for hours rather than minutes:

    python3 tests/generator/differential/differential.py --modgen build/release/bin/modgen --chains 600 --seeds 1,2,3 --keep found

`--only SEED/NUMBER` runs one again and prints it; `--check-oracle` runs no modgen, but holds the oracle itself to what it promises: that
it compiles, reads nothing that was not written, and does nothing undefined, as far as the sanitizer sees.

Where things are:
    model.py         what a program being made knows: names, families, classes, functions
    expressions.py   random expressions: intervals, so that nothing overflows, and effects, so that no order is left open
    statements.py    random statements
    classes.py, constructors.py, families.py, drivers.py   what is around them, and what the oracle has in other words
    orders.py        classes for the order of effects in constructors and around super calls
    records.py       structs with special members: copies, comparisons, destructors
    tree.py          programs as trees of text in two versions, spec and oracle
    judge.py         builds, runs and compares
    reduce.py        makes a failing program small
    support.h        what the compiled programs share
A new construct is one more function in statements.py or expressions.py; where flattening means more than C++ does, an Either says what
the oracle has instead. Add it, run with --check-oracle until nothing is reported, then run against modgen.
"""

import argparse
import collections
import concurrent.futures
import importlib.util
import pathlib
import re
import shutil
import sys
import time

from families import Maker
from judge import Judge, ROOT, indented
from model import FAMILIES, FEATURES, SMALL_CLASSES
from reduce import reduced, size
from tree import text

HERE = pathlib.Path(__file__).resolve().parent
# What the language does not have, so that a spec with it is rightly rejected.
LEFT_OUT = re.compile(r"C\+\+ (runs the base's destructor|copies the (fields|base's part) of this class|compares the base's (fields|part)|hides the base's)"
                      r"|nothing is known about the global variable")
DEFECTS = ("differs", "crash", "invalid", "unlocated", "fuzzer")


def torch_folder():
    for folder in (ROOT / ".venv").glob("lib/python3*/site-packages/torch"):
        return folder
    found = importlib.util.find_spec("torch")
    return pathlib.Path(found.origin).parent if found else None


def message_kind(message):
    """A error without the names in it."""
    line = message.partition("\n")[0].partition("error: ")[2] or message.partition("\n")[0]
    return re.sub(r"'[^']*'", "'…'", re.sub(r"\d+", "N", line))


def spec_texts(program, number=""):
    return {f"{FAMILIES[index]}{number}.h": indented(text(spec, False, number)) for index, spec in sorted(program.specs.items())}


def report(judge, name, verdict, program, keep):
    """Prints a failing program and what became of it; keeps it where asked to."""
    lines = [f"==== {name}: {verdict.kind}", verdict.detail.strip(), ""]
    for file, code in spec_texts(program, 0).items():
        lines += [f"---- modular/{file}", code]
    if verdict.kind in ("differs", "crash", "invalid"):
        for file, code in judge.generated(program).items():
            if not file.startswith(FAMILIES[0]):
                lines += [f"---- generated/{file}", code]
    shown = "\n".join(lines)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / (name.replace("/", "-") + ".txt")).write_text(shown)
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modgen", type=pathlib.Path, required=True)
    parser.add_argument("--chains", type=int, default=75, help="chains of families for each seed")
    parser.add_argument("--first", type=int, default=0, help="the first chain's number")
    parser.add_argument("--seeds", default="1", help="several with commas between them")
    parser.add_argument("--only", help="SEED/NUMBER: this chain alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=50, help="chains in one translation unit")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no further batch is begun")
    parser.add_argument("--stop", action="store_true", help="end with the first batch that has a defect")
    parser.add_argument("--reduce", type=int, default=3, help="how many failing chains are made small")
    parser.add_argument("--rejected", type=float, default=0.1, help="the share of families that modgen may reject")
    parser.add_argument("--keep", type=pathlib.Path, help="where failing chains are kept")
    parser.add_argument("--shipped", type=pathlib.Path, default=ROOT, help="the tree with the prelude and runtime/model/")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/differential", help="where the compiled contract is kept")
    parser.add_argument("--clang", default="clang++-19")
    parser.add_argument("--torch", type=pathlib.Path, default=torch_folder())
    parser.add_argument("--without", default="", help="features (of model.py) that no chain has, with commas between them")
    parser.add_argument("--with", dest="having", help="only the chains that have this feature")
    parser.add_argument("--check-oracle", action="store_true")
    arguments = parser.parse_args()
    without = [one for one in arguments.without.split(",") if one]
    unknown = {*without, *([arguments.having] if arguments.having else [])} - {*FEATURES, *SMALL_CLASSES}
    if unknown:
        parser.error(f"no such features: {', '.join(sorted(unknown))}; there are {', '.join([*FEATURES, *SMALL_CLASSES])}")

    judge = Judge(arguments.modgen.resolve(), arguments.clang, arguments.torch, arguments.cache.resolve(), arguments.shipped.resolve())
    judge.prepare()
    if arguments.only:
        chosen = [tuple(arguments.only.split("/"))]
    else:
        numbers = range(arguments.first, arguments.first + arguments.chains)
        chosen = [(seed, number) for seed in arguments.seeds.split(",") for number in numbers
                  if not arguments.having or arguments.having in Maker(seed, number, without).chain.features]
    batches = [chosen[index : index + arguments.batch] for index in range(0, len(chosen), arguments.batch)]
    end, began = time.monotonic() + arguments.seconds, time.monotonic()

    def run(batch):
        if time.monotonic() > end or stopped:
            return []
        programs = {index: Maker(seed, number, without).make() for index, (seed, number) in enumerate(batch)}
        verdicts = judge.check_oracle(programs) if arguments.check_oracle else judge.judge(programs)
        return [(f"{seed}/{number}", verdicts[index], programs[index]) for index, (seed, number) in enumerate(batch)]

    counts, messages, left_out, failing, stopped, families = collections.Counter(), collections.Counter(), 0, [], [], 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for results in pool.map(run, batches):
            for name, verdict, program in results:
                counts[verdict.kind] += 1
                families += len(program.specs)
                needless = [one for one in verdict.rejected.values() if not LEFT_OUT.search(one)]
                messages.update(map(message_kind, needless))
                left_out += len(verdict.rejected) - len(needless)
                if verdict.kind in DEFECTS:
                    failing.append((name, verdict, program))
                    print(f"{name}: {verdict.kind}: {verdict.detail.strip().partition(chr(10))[0][:200]}", flush=True)
                if arguments.only:
                    print(report(judge, name, verdict, program, None))
            if failing and arguments.stop:
                stopped.append(True)
    for message, count in messages.most_common():
        print(f"rejected {count:4}: {message}")
    if arguments.keep and arguments.keep.exists():
        shutil.rmtree(arguments.keep)
    for name, verdict, program in failing:
        if arguments.keep:
            report(judge, name, verdict, program, arguments.keep)
    for name, verdict, program in distinct(failing)[: arguments.reduce]:
        small, why = reduced(judge, program, verdict)
        print(report(judge, f"{name} reduced from {size(program)} to {size(small)} bytes", why, small, None), flush=True)
        if arguments.keep:
            report(judge, f"{name} reduced", why, small, arguments.keep)
    total = sum(counts.values())
    shares = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{families} families in {total} chains in {time.monotonic() - began:.0f} s: {messages.total()} families rejected, "
          f"and {left_out} for what the language leaves out; chains: {shares}")
    rejected = messages.total() > arguments.rejected * families
    if rejected:
        print(f"more than {arguments.rejected:.0%} are rejected")
    sys.exit(1 if failing or rejected or not total else 0)


def distinct(failing):
    """Small programs first, one of each kind before the second of any."""
    seen, result = collections.Counter(), []
    for one in sorted(failing, key=lambda one: size(one[2])):
        seen[one[1].kind] += 1
        result.append((seen[one[1].kind], one))
    return [one for _, one in sorted(result, key=lambda pair: pair[0])]


if __name__ == "__main__":
    main()
