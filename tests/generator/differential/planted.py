"""Plants defects in modgen, one at a time, and sees whether the fuzzer finds each.

usage: planted.py --build build/ci [--only NAME,…] [--families 500] [--seed 1] [--check]

Each file of planted/ is a patch of one source file of the generator, with a line before it that says what goes wrong. The file is
compiled as the build folder compiles it and linked with what was built there, twice: as it is, and without translation validation
(planted/without_validation.patch), which would reject most of it before the fuzzer could see it. Without validation the fuzzer has to find
the defect within so many families; with it, the same chains are flattened again, to see whether validation alone would reject one. What the
modgen of the build folder gets wrong by itself, without validation too, does not count. The build folder has to be up to date; half an hour for all of them.

`--check` only sees whether the patches still apply to the sources.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from differential import DEFECTS, torch_folder
from families import Maker
from judge import HERE, ROOT, Judge

PLANTED = HERE / "planted"
WITHOUT_VALIDATION = "without_validation"
BATCH = 10  # chains in one translation unit


def applied(name, folder):
    """The file that a patch changes, and where `folder` has it changed."""
    patch = PLANTED / f"{name}.patch"
    file = next(line[6:].split("\t")[0] for line in patch.read_text().splitlines() if line.startswith("+++ b/"))
    changed = folder / file
    changed.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / file, changed)
    done = subprocess.run(["git", "apply", "-C1", patch], cwd=folder, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
                          capture_output=True, text=True)
    if done.returncode != 0 or changed.read_bytes() == (ROOT / file).read_bytes():
        raise RuntimeError(f"{patch} does not apply: {done.stderr.strip()}\nmake it again from {file} as it is now")
    return file, changed


class Builder:
    """Builds changed modgens from what a build folder holds."""

    def __init__(self, build):
        self.build = build
        self.commands = {one["file"]: one for one in json.loads((build / "compile_commands.json").read_text())}
        asked = subprocess.run(["ninja", "-C", build, "-t", "commands", "bin/modgen-generate"], check=True, capture_output=True, text=True)
        self.link = asked.stdout.splitlines()[-1]

    def compiled(self, name, folder):
        file, changed = applied(name, folder)
        known = self.commands[str(ROOT / file)]
        command, object_file = shlex.split(known["command"]), changed.with_suffix(".o")
        command[command.index("-o") + 1], command[command.index("-c") + 1] = str(object_file), str(changed)
        self.run([*command, "-w"], known["directory"])
        return object_file

    def linked(self, folder, objects):
        """A folder with a modgen that has these objects in the place of the library's: they come before it."""
        folder.mkdir()
        shutil.copy(self.build / "bin/modgen", folder)
        first, *others = shlex.split(self.link.removeprefix(": && ").removesuffix(" && :"))
        others[others.index("-o") + 1] = str(folder / "modgen-generate")
        self.run([first, *map(str, objects), *others], self.build)
        return folder / "modgen"

    @staticmethod
    def run(command, folder):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(map(str, command))}\n{done.stderr[-4000:]}")


class Search:
    """Looks through the chains of a seed."""

    def __init__(self, make_judge, plain, unchecked, seed, families):
        """`plain` and `unchecked`: modgens without a planted defect, with validation and without."""
        self.make_judge, self.plain, self.unchecked = make_judge, make_judge(plain), make_judge(unchecked)
        self.seed, self.families = seed, families

    def batches(self, most):
        """Programs by number, until they have so many families."""
        count, first = 0, 0
        while count < most:
            programs = {number: Maker(self.seed, number).make() for number in range(first, first + BATCH)}
            yield programs
            count, first = count + sum(len(one.specs) for one in programs.values()), first + BATCH

    def defect(self, modgen):
        """What the fuzzer says of the first chain that is wrong, and how many families it took; None where none is."""
        judge, count = self.make_judge(modgen), 0
        for programs in self.batches(self.families):
            verdicts = judge.judge(programs)
            for number, program in programs.items():
                count += len(program.specs)
                kind = verdicts[number].kind
                if kind in DEFECTS and self.unchecked.judge({number: program})[number].kind not in DEFECTS:
                    return f"{kind} ({self.seed}/{number})", count
        return None, count

    def error(self, modgen, most):
        """After how many families validation rejects one that the plain modgen takes; None where it rejects none of so many."""
        judge, count = self.make_judge(modgen), 0
        for programs in self.batches(most):
            rejected = self.rejected(judge, programs)
            for number, program in programs.items():
                count += len(program.specs)
                if rejected.get(number) and rejected[number] - self.rejected(self.plain, {number: program}).get(number, set()):
                    return count
        return None

    @staticmethod
    def rejected(judge, programs):
        """The levels that validation rejects, by number."""
        with tempfile.TemporaryDirectory(prefix="planted-") as name:
            messages, _ = judge.flatten(pathlib.Path(name), programs)
        return {number: {level for level, message in of.items() if "would differ in meaning from the spec" in message}
                for number, of in messages.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/ci")
    parser.add_argument("--only", help="names of patches, with commas between them")
    parser.add_argument("--families", type=int, default=500, help="within which each has to be found")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--check", action="store_true", help="only whether the patches apply")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/differential", help="where the compiled contract is kept")
    parser.add_argument("--clang", default="clang++-19")
    parser.add_argument("--torch", type=pathlib.Path, default=torch_folder())
    arguments = parser.parse_args()
    names = sorted(path.stem for path in PLANTED.glob("*.patch") if path.stem != WITHOUT_VALIDATION)
    if arguments.only:
        names = arguments.only.split(",")
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = pathlib.Path(name)
        if arguments.check:
            for one in [*names, WITHOUT_VALIDATION]:
                applied(one, folder / one)
            print(f"{len(names)} defects can be planted")
            return

        def make_judge(modgen):
            judge = Judge(modgen, arguments.clang, arguments.torch, arguments.cache.resolve())
            judge.prepare()
            return judge

        builder = Builder(arguments.build.resolve())
        without = builder.compiled(WITHOUT_VALIDATION, folder / WITHOUT_VALIDATION)
        plain, unchecked = builder.linked(folder / "plain", []), builder.linked(folder / "unchecked", [without])
        search = Search(make_judge, plain, unchecked, arguments.seed, arguments.families)
        missed = []
        print(f"{'defect':28} {'the fuzzer, without validation':40} validation alone", flush=True)
        for one in names:
            planted = builder.compiled(one, folder / one)
            kind, count = search.defect(builder.linked(folder / one / "without_validation", [planted, without]))
            rejected = search.error(builder.linked(folder / one / "validating", [planted]), count)
            found = f"{kind} after {count} families" if kind else f"not found in {count} families"
            alone = f"rejects after {rejected} families" if rejected else "rejects none of these"
            print(f"{one:28} {found:40} {alone}", flush=True)
            if not kind:
                missed.append(one)
            shutil.rmtree(folder / one)
    print(f"{len(names) - len(missed)} of {len(names)} found within {arguments.families} families")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
