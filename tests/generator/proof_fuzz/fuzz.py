"""Fuzzes the proofs of shard types.

modgen weaves random modules (modules.py). Accepted modules are compiled, many per program, and run on a single process and
on simulated ranks of each axis that modgen accepts them for, forward and backward, in double precision. Their results must
not differ. Half of the modules are right by construction, the others contain occasional mistakes. Rejected modules are woven anyway, with guesses for the
types that modgen cannot prove, to report the fraction of modules that compute the same but are rejected.

    build/ci/bin/fuzz_proofs --count 5000 --seed 1
    build/ci/bin/fuzz_proofs --seed 1 --only m1_000042     one module, kept in the work folder
    build/ci/bin/fuzz_proofs --seed 1 --reduce m1_000042   the same, reduced to the statements that reproduce it
    build/ci/bin/fuzz_proofs --wrong not-entered           with a wrong rule, until it is found
    build/ci/bin/fuzz_proofs --all-wrong                   with each wrong rule
    build/ci/bin/fuzz_proofs --planted all --count 1000    with each defect of planted/
    build/ci/bin/fuzz_proofs --count 1000 --with mistake:  of 1000 modules those with one mistake that no rule sees
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import modules  # noqa: E402
import planted  # noqa: E402
import reduce  # noqa: E402

GUESSES = ("same", "partial")
AXES = ("rows", "positions", "shares")  # that ranks divide besides split parameters


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def is_accepted(verdict):
    return verdict in ("accepted", "accepted by rows")


def to_axes(verdict):
    """The axes that an accepted module runs on, for run_modules.cc."""
    return "all" if verdict.endswith("by rows") else "all but rows"


def is_same(judgement):
    return judgement.startswith("same")


def is_finding(judgement):
    return judgement.startswith(("differs", "crashes", "does not compile"))


class Batch:
    """Modules with modgen's verdicts, and the results of running accepted and rejected modules."""

    def __init__(self, written, verdicts):
        self.written, self.verdicts = written, verdicts
        self.accepted = {}  # results of accepted modules
        self.rejected = {}  # results of rejected modules, woven anyway


class Fuzzer:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = pathlib.Path(arguments.work) / "modules"
        self.flags = shlex.split(arguments.flags)
        self.header = None

    def prepare(self):
        """Precompiles the contract, unless it is already up to date."""
        header = pathlib.Path(self.arguments.work) / "module_entry.pch"
        source = pathlib.Path(self.arguments.header)
        root = source.parents[3]
        inputs = [source, root / "checks/execute/contract_in_double.h", root / "runtime/parallel/parameters/config_integers.h"]
        newest = max(path.stat().st_mtime for path in [*inputs, *root.glob("runtime/model/*.h")])
        if not header.exists() or header.stat().st_mtime < newest:
            temporary = header.with_suffix(f".{os.getpid()}")
            result = run([self.arguments.clang, *self.flags, "-Xclang", "-fpch-instantiate-templates", "-x", "c++-header",
                          self.arguments.header, "-o", str(temporary)])
            if result.returncode != 0:
                raise RuntimeError("the contract does not compile:\n" + result.stderr)
            temporary.replace(header)
        self.header = header

    @staticmethod
    def module(seed, index, family=None):
        return modules.write_module(f"{seed}/{index}", family or f"m{seed}_{index:06}", wild=index % 2 == 1)

    # ---- Weaving ----

    def weave(self, folder, texts, options=()):
        """modgen's verdict on each family: "accepted", or the error. A family that is not valid C++ is "invalid: …"."""
        (folder / "modular").mkdir(parents=True, exist_ok=True)
        (folder / "out").mkdir(exist_ok=True)
        for family, text in texts.items():
            (folder / "modular" / f"{family}.h").write_text(text)
        return self.weave_families(folder, list(texts), options)

    def weave_families(self, folder, families, options):
        if not families:
            return {}
        result = run([self.arguments.weave, *options, str(folder), str(folder / "out"), *families])
        if result.returncode == 0:
            return dict(line.split("\t", 1) for line in result.stdout.splitlines())
        message = result.stderr.strip() or f"exit status {result.returncode}"
        if len(families) == 1:
            return {families[0]: "invalid: " + message}
        bad = [family for family in families if re.search(rf"\b{family}\b", message)]
        if len(bad) == 1:
            rest = [family for family in families if family != bad[0]]
            return {bad[0]: "invalid: " + message} | self.weave_families(folder, rest, options)
        middle = len(families) // 2
        return (self.weave_families(folder, families[:middle], options) |
                self.weave_families(folder, families[middle:], options))

    # ---- Running ----

    def judge(self, folder, families, axes=None):
        """Compiles and runs woven families on the axes in `axes`, tensor-parallel ranks alone by default. Returns
        "same …", "differs …" or "invalid: …" for each."""
        axes = axes or {}
        if not families:
            return {}
        source, program = folder / "modules.cc", folder / "modules"
        source.write_text("#define register_entry register_module_entry\n" +
                          "".join(f'#include "out/{family}.h"\n' for family in families))
        result = run([self.arguments.clang, *self.flags, "-ferror-limit=0", "-include-pch", str(self.header), "-I",
                      str(folder), str(source), "-o", str(program), *shlex.split(self.arguments.libraries)])
        if result.returncode != 0:
            errors = [line for line in result.stderr.splitlines() if "error: " in line]
            bad = {family: next((line for line in errors if f"/{family}.h:" in line), "") for family in families}
            bad = {family: "does not compile: " + line for family, line in bad.items() if line}
            if not bad:
                raise RuntimeError("the modules do not compile:\n" + result.stderr[:3000])
            return bad | self.judge(folder, [family for family in families if family not in bad], axes)
        judged = {}
        while len(judged) < len(families):
            left = [f"{family}:{axes.get(family, 'tp')}" for family in families if family not in judged]
            result = run([str(program), *left], env=os.environ | {"OMP_NUM_THREADS": "1"})
            judged |= dict(line.split("\t", 1) for line in result.stdout.splitlines() if "\t" in line)
            # The first family without a result crashed the program.
            ended = next((family for family in families if family not in judged), None)
            if ended:
                judged[ended] = f"crashes: exit status {result.returncode}, {result.stderr[-300:]}"
        return judged

    def woven_regardless(self, folder, seed, rejected):
        """Weaves rejected modules with each guess. Returns the original family of each woven module, by its new name."""
        others = {}
        for guess in GUESSES:
            texts = {}
            for family in rejected:
                name = f"{family}_{guess}"
                texts[name] = self.module(seed, int(family.split("_")[-1]), name).text
                others[name] = family
            self.weave(folder, texts, ("--regardless", guess))
        return {name: family for name, family in others.items() if (folder / "out" / f"{name}.h").exists()}

    def batch(self, seed, indexes, wrong=None):
        folder = self.work / f"{seed}_{indexes[0]}{'_' + wrong if wrong else ''}"
        shutil.rmtree(folder, ignore_errors=True)
        written = [self.module(seed, index) for index in indexes]
        texts = {module.family: module.text for module in written}
        result = Batch(written, self.weave(folder, texts, ("--wrong", wrong) if wrong and not self.arguments.planted else ()))
        accepted = [family for family in texts if is_accepted(result.verdicts[family])]
        rejected = [family for family, verdict in result.verdicts.items()
                    if not is_accepted(verdict) and not verdict.startswith("invalid")]
        others = self.woven_regardless(folder, seed, [] if wrong or self.arguments.no_rejected else rejected)
        judged = self.judge(folder, accepted + list(others), {family: to_axes(result.verdicts[family]) for family in accepted})
        result.accepted = {family: judged[family] for family in accepted}
        for name, family in others.items():
            if not is_same(result.rejected.get(family, "")):
                result.rejected[family] = judged[name]
        if not any(map(is_finding, result.accepted.values())) and not self.arguments.keep:
            shutil.rmtree(folder)
        return result


class Report:
    def __init__(self):
        self.tally, self.reasons, self.findings = collections.Counter(), collections.Counter(), []
        self.mistakes = collections.Counter()  # modules by their mistake

    def add(self, batch, arguments):
        for module in batch.written:
            verdict, kind = batch.verdicts[module.family], "right" if module.is_right else "wild"
            self.tally[kind] += 1
            self.mistakes.update(name for name in module.features if name.startswith("mistake: "))
            if verdict.startswith("invalid"):
                self.tally["not valid C++"] += 1
                self.findings.append((module, verdict))
                continue
            if is_accepted(verdict):
                judgement = batch.accepted[module.family]
                self.tally[f"accepted, {judgement.split(':')[0].split(' ')[0]}"] += 1
                self.tally.update(axis for axis in AXES if f"by {axis}" in judgement)
                if is_finding(judgement):
                    self.findings.append((module, judgement))
                    print(f"{module.family}: {judgement}", flush=True)
                elif judgement.startswith("invalid") and arguments.show:
                    print(f"{module.family}: {judgement}", flush=True)
                continue
            self.tally["rejected"] += 1
            self.tally[f"{kind} rejected"] += 1
            judgement = batch.rejected.get(module.family, "")
            if judgement.startswith("invalid"):
                self.tally["rejected, invalid"] += 1
                continue
            if is_same(judgement) or module.is_right:
                self.tally["rejected, same"] += 1
                self.reasons[re.sub(r"\d+", "#", verdict)] += 1
            if arguments.show and (is_same(judgement) or module.is_right):
                print(f"{module.family} is {kind}, {judgement or 'not run'} and rejected: {verdict}", flush=True)

    def print(self, arguments, seconds):
        tally = self.tally
        count = tally["right"] + tally["wild"]
        invalid = tally["not valid C++"] + tally["accepted, invalid"] + tally["rejected, invalid"]
        same = tally["accepted, same"] + tally["rejected, same"]
        axes = ", ".join(f"{tally[axis]} by {axis}" for axis in AXES)
        print(f"{count} modules in {seconds:.0f} s: {tally['accepted, same']} are accepted and compute the same on "
              f"tensor-parallel ranks (divided too: {axes}), {len(self.findings)} findings; {tally['rejected']} are "
              f"rejected, {invalid} cannot run on a single process")
        print(f"  rejected: {tally['rejected, same']} of {same} modules that compute the same "
              f"({100 * tally['rejected, same'] / max(same, 1):.1f} %), {tally['right rejected']} of {tally['right']} that are "
              "right by construction")
        for reason, number in self.reasons.most_common(arguments.show):
            print(f"    {number} times: {reason[:300]}")
        found = collections.Counter(name for module, _ in self.findings for name in module.features)
        for name in sorted(self.mistakes if self.findings else ()):
            print(f"    {found[name]} findings in {self.mistakes[name]} modules with {name}")
        for module, judgement in self.findings:
            print(f"\n{module.family} ({', '.join(sorted(module.features))}): {judgement}\n"
                  f"  to reproduce: fuzz_proofs --seed {arguments.seed} --only {module.family}")
        if invalid * 10 > count:
            print("too many modules cannot run on a single process: check modules.py")
            return 1
        if 3 * tally["rejected, same"] > same:
            print("more than a third of the modules that compute the same are rejected")
            return 1
        return 1 if self.findings else 0


def fuzz(fuzzer, arguments):
    report = Report()
    begin = time.monotonic()
    indexes = list(range(arguments.first, arguments.first + arguments.count))
    if arguments.having or arguments.without:
        left_out = [one for one in arguments.without.split(",") if one]

        def is_chosen(index):
            names = fuzzer.module(arguments.seed, index).features
            return (not arguments.having or any(arguments.having in name for name in names)) and \
                not any(one in name for one in left_out for name in names)

        indexes = list(filter(is_chosen, indexes))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(fuzzer.batch, arguments.seed, indexes[first : first + arguments.batch])
                for first in range(0, len(indexes), arguments.batch)]
        for job in concurrent.futures.as_completed(jobs):
            report.add(job.result(), arguments)
    return report.print(arguments, time.monotonic() - begin)


def find_wrong_rule(fuzzer, arguments, wrong):
    """Whether the fuzzer finds a wrong rule. Prints the number of modules that it needed."""
    for first in range(0, arguments.count, arguments.batch):
        batch = fuzzer.batch(arguments.seed, range(first, first + arguments.batch), wrong)
        shutil.rmtree(fuzzer.work / f"{arguments.seed}_{first}_{wrong}", ignore_errors=True)
        found = sorted(family for family, judgement in batch.accepted.items() if is_finding(judgement))
        if found:
            print(f"{wrong}: found within {int(found[0].split('_')[-1]) + 1} modules: {found[0]} "
                  f"{batch.accepted[found[0]]}", flush=True)
            return True
    print(f"{wrong}: not found by {arguments.count} modules", flush=True)
    return False


def one_module(fuzzer, arguments):
    written = fuzzer.module(arguments.seed, int(arguments.only.split("_")[-1]))
    folder = fuzzer.work / arguments.only
    shutil.rmtree(folder, ignore_errors=True)
    options = ("--wrong", arguments.wrong) if arguments.wrong else ()
    verdict = fuzzer.weave(folder, {written.family: written.text}, options)[written.family]
    print(f"{folder}/modular/{written.family}.h, right by construction: {written.is_right}")
    print(verdict)
    if is_accepted(verdict):
        print(f"{folder}/out/{written.family}.h")
        print(fuzzer.judge(folder, [written.family], {written.family: to_axes(verdict)})[written.family])
    elif not verdict.startswith("invalid"):
        others = fuzzer.woven_regardless(folder, arguments.seed, [written.family])
        for name, judgement in fuzzer.judge(folder, list(others)).items():
            print(f"woven anyway, {folder}/out/{name}.h: {judgement}")
    return 0


def reduce_module(fuzzer, arguments):
    written = fuzzer.module(arguments.seed, int(arguments.reduce.split("_")[-1]))
    folder = fuzzer.work / f"{arguments.reduce}_reduced"
    shutil.rmtree(folder, ignore_errors=True)
    options = ("--wrong", arguments.wrong) if arguments.wrong else ()

    def outcome(text):
        verdict = fuzzer.weave(folder, {written.family: text}, options)[written.family]
        if not is_accepted(verdict):
            return "invalid" if verdict.startswith("invalid") else "rejected"
        judged = fuzzer.judge(folder, [written.family], {written.family: to_axes(verdict)})[written.family]
        return judged.split()[0].rstrip(":")

    text = reduce.reduced(written.text, outcome)
    fuzzer.weave(folder, {written.family: text}, options)
    print(text)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("weave", "clang", "flags", "libraries", "header", "work"):
        parser.add_argument(f"--{name}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=5000, help="number of modules")
    parser.add_argument("--first", type=int, default=0, help="index of the first module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100, help="modules per program")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="one module, by its name")
    parser.add_argument("--reduce", help="one module, by its name, made small")
    parser.add_argument("--with", dest="having", default="", help="only the modules that have a feature whose name contains this")
    parser.add_argument("--without", default="", help="no modules with a feature whose name contains one of these, with commas between them")
    parser.add_argument("--wrong", help="with that wrong rule planted, until it is found")
    parser.add_argument("--all-wrong", action="store_true", help="with each wrong rule")
    parser.add_argument("--planted", help="with the defect of planted/ that has this name, or with each: all")
    parser.add_argument("--no-rejected", action="store_true", help="do not run what is rejected")
    parser.add_argument("--keep", action="store_true", help="keep all modules in the work folder")
    parser.add_argument("--show", type=int, default=0, help="show that many reasons for which right modules are rejected")
    arguments = parser.parse_args()
    fuzzer = Fuzzer(arguments)
    fuzzer.prepare()
    if arguments.only:
        return one_module(fuzzer, arguments)
    if arguments.reduce:
        return reduce_module(fuzzer, arguments)
    if arguments.planted:
        return planted.find_planted(Fuzzer, arguments)
    if arguments.wrong or arguments.all_wrong:
        listed = run([arguments.weave, "--list"], check=True).stdout.splitlines()
        names = [arguments.wrong] if arguments.wrong else [line.split("\t")[0] for line in listed]
        return 0 if all([find_wrong_rule(fuzzer, arguments, name) for name in names]) else 1
    return fuzz(fuzzer, arguments)


if __name__ == "__main__":
    sys.exit(main())
