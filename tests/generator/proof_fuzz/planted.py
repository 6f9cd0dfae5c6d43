"""Plants defects in the interpreter, one at a time, and sees whether the fuzzer finds each.

Each file of planted/ is a patch (see ../planting.py). Of as many modules as are asked for, those with the feature that shows the defect are run."""

import copy
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import planting  # noqa: E402

PATCHES = sorted((HERE / "planted").glob("*.patch"))


def search(fuzzer, arguments, patch, number_of_batch=20):
    """How many modules it takes to find the defect, and the finding; None where none of them shows it."""
    indexes = [index for index in range(arguments.count) if planting.shown_by(patch) in fuzzer.module(arguments.seed, index).features]
    for first in range(0, len(indexes), number_of_batch):
        batch = fuzzer.batch(arguments.seed, indexes[first : first + number_of_batch], patch.stem)
        for family, judgement in sorted(batch.accepted.items()):
            if judgement.startswith(("differs", "crashes", "does not compile")):
                return int(family.split("_")[-1]) + 1, judgement
    return None


def find_planted(make_fuzzer, arguments):
    """Whether the fuzzer finds all defects, or those that `arguments.planted` names."""
    patches = [one for one in PATCHES if arguments.planted in ("all", one.stem)]
    build = pathlib.Path(arguments.weave).resolve().parents[1]
    builder, missed = planting.Builder(build, "weave_modules"), 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        for patch in patches:
            with_patch = copy.copy(arguments)
            with_patch.weave, with_patch.no_rejected = str(builder.built([patch], pathlib.Path(folder) / patch.stem)), True
            fuzzer = make_fuzzer(with_patch)
            fuzzer.prepare()
            found = search(fuzzer, with_patch, patch)
            missed += found is None
            result = f"found within {found[0]} modules: {found[1][:150]}" if found else f"not found in {arguments.count} modules"
            print(f"{patch.stem}: {result}", flush=True)
    print(f"{len(patches) - missed} of {len(patches)} found within {arguments.count} modules")
    return 1 if missed else 0
