"""Plants defects in modgen, one at a time, and sees whether the fuzzer finds each.

usage: planted.py --build build/ci [--only NAME,…] [--families 1000] [--seed 1] [--check]

Each file of planted/ is a patch (see ../planting.py). The patched file is compiled and linked with what was built, twice: as it is, and without
translation validation (planted/without_validation.patch), which would reject most of it before the fuzzer could see it. Without validation the
fuzzer has to find the defect within so many families; with it, the same chains are flattened again, to see whether validation alone would reject
one. What the modgen of the build folder gets wrong by itself, without validation too, does not count. The build folder has to be up to date; half
an hour for all of them.

`--check` only sees whether the patches still apply to the sources, those of the proof fuzzer too.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

from differential import DEFECTS, torch_folder
from families import Maker
from judge import HERE, ROOT, Judge

sys.path.insert(0, str(HERE.parent))
import planting  # noqa: E402

PLANTED = HERE / "planted"
WITHOUT_VALIDATION = PLANTED / "without_validation.patch"
BATCH = 10  # chains in one translation unit


class Search:
    """Looks through the chains of a seed."""

    def __init__(self, make_judge, plain, unchecked, seed, families):
        """`plain` and `unchecked`: modgens without a planted defect, with validation and without."""
        self.make_judge, self.plain, self.unchecked = make_judge, make_judge(plain), make_judge(unchecked)
        self.seed, self.families = seed, families

    def batches(self, most, feature):
        """Programs by number, those with the feature, until all chains before them have so many families; and how many these are."""
        count, number, programs = 0, 0, {}
        while count < most:
            maker = Maker(self.seed, number)
            count += len(maker.chain.parents)
            if feature is None or feature in maker.chain.features:
                programs[number] = maker.make()
            number += 1
            if len(programs) == BATCH or (programs and count >= most):
                yield programs, count
                programs = {}

    def defect(self, modgen, feature):
        """What the fuzzer says of the first chain that is wrong, and how many families it took; None where none is."""
        judge, count = self.make_judge(modgen), 0
        for programs, count in self.batches(self.families, feature):
            verdicts = judge.judge(programs)
            for number, program in programs.items():
                kind = verdicts[number].kind
                if kind in DEFECTS and self.unchecked.judge({number: program})[number].kind not in DEFECTS:
                    return f"{kind} ({self.seed}/{number})", count
        return None, count

    def error(self, modgen, most, feature):
        """After how many families validation rejects one that the plain modgen takes; None where it rejects none of so many."""
        judge = self.make_judge(modgen)
        for programs, count in self.batches(most, feature):
            rejected = self.rejected(judge, programs)
            for number, program in programs.items():
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
    parser.add_argument("--families", type=int, default=1000, help="within which each has to be found")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--check", action="store_true", help="only whether the patches apply")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build/differential", help="where the compiled contract is kept")
    parser.add_argument("--clang", default="clang++-19")
    parser.add_argument("--torch", type=pathlib.Path, default=torch_folder())
    arguments = parser.parse_args()
    patches = sorted(path for path in PLANTED.glob("*.patch") if path != WITHOUT_VALIDATION)
    if arguments.only:
        patches = [PLANTED / f"{name}.patch" for name in arguments.only.split(",")]
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = pathlib.Path(name)
        if arguments.check:
            patches += sorted((HERE.parent / "proof_fuzz/planted").glob("*.patch"))
            planting.check([*patches, WITHOUT_VALIDATION], folder)
            print(f"{len(patches)} defects can be planted")
            return

        def make_judge(modgen):
            judge = Judge(modgen, arguments.clang, arguments.torch, arguments.cache.resolve())
            judge.prepare()
            return judge

        builder = planting.Builder(arguments.build.resolve(), "modgen-generate")

        def built(patches, name):
            program = builder.built(patches, folder / name)
            shutil.copy(arguments.build / "bin/modgen", program.parent)
            return program.parent / "modgen"

        search = Search(make_judge, built([], "plain"), built([WITHOUT_VALIDATION], "unchecked"), arguments.seed, arguments.families)
        missed = []
        print(f"{'defect':28} {'the fuzzer, without validation':40} validation alone", flush=True)
        for patch in patches:
            one = patch.stem
            feature = planting.shown_by(patch)
            kind, count = search.defect(built([patch, WITHOUT_VALIDATION], f"{one}/without_validation"), feature)
            rejected = search.error(built([patch], f"{one}/validating"), count, feature)
            found = f"{kind} after {count} families" if kind else f"not found in {count} families"
            alone = f"rejects after {rejected} families" if rejected else "rejects none of these"
            print(f"{one:28} {found:40} {alone}", flush=True)
            if not kind:
                missed.append(one)
            shutil.rmtree(folder / one)
    print(f"{len(patches) - len(missed)} of {len(patches)} found within {arguments.families} families")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
