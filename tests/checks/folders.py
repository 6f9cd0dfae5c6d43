"""Checks that dependencies between folders are acyclic: a folder may include itself and the folders that are listed for it here, as in docs/internals/overview.md.

    folders.py PROJECT
"""

import pathlib
import re
import sys

CONTRACT = ["runtime/model"]
BELOW_PARALLEL = [*CONTRACT, "runtime/files", "runtime/mesh"]
ROOMS = [f"runtime/parallel/{room}" for room in ("step", "pipeline", "parameters", "memory", "tensor", "random", "objectives", "fsdp")]
PARALLEL = [*BELOW_PARALLEL, *ROOMS, "runtime/parallel"]
DATA = [*PARALLEL, "runtime/checkpoint", "runtime/data"]
CONFIG = [*DATA, "runtime/optim", "runtime/evaluation", "runtime/launch", "runtime/tokenizer", "runtime/config"]
TRAIN = [*CONFIG, "runtime/datasets", "runtime/metrics", "runtime/train"]
STAGES = ["generator/source", "generator/parse", "generator/resolve", "generator/flatten", "generator/validate", "generator/model", "generator/weave", "generator/print"]

MAY_INCLUDE = {
    "modular": CONTRACT,
    "generated": CONTRACT,
    **{stage: STAGES[:at] for at, stage in enumerate(STAGES)},
    "generator": STAGES,
    "generator/tool": ["generator", *STAGES, "checks"],  # checks: for the records, which both programs read
    "checks": ["generator", "generator/source"],
    "checks/execute": [*PARALLEL, "modular"],  # linked with generated files
    "runtime/model": [],
    "runtime/files": [],
    "runtime/mesh": [],
    "runtime/ops": CONTRACT,
    **{room: [*BELOW_PARALLEL, *ROOMS[:at]] for at, room in enumerate(ROOMS)},
    "runtime/parallel": PARALLEL,
    "runtime/optim": [*PARALLEL, "runtime/ops"],
    "runtime/checkpoint": PARALLEL,
    "runtime/data": DATA,
    "runtime/evaluation": DATA,
    "runtime/tokenizer": [*CONTRACT, "runtime/files", "runtime/mesh", "runtime/checkpoint", "runtime/launch"],
    "runtime/config": CONFIG,
    "runtime/datasets": CONFIG,
    "runtime/metrics": [*CONFIG, "runtime/datasets"],
    "runtime/train": TRAIN,
    "runtime/prepare": TRAIN,
    "runtime/search": TRAIN,
    "runtime/report": [*TRAIN, "runtime/search"],
    "runtime/plan": [*TRAIN, "runtime/ops"],
    "runtime/advise": [*TRAIN, "runtime/plan"],
    "runtime/launch": ["runtime/files", "runtime/mesh"],
    "runtime/modrun": [*TRAIN, "runtime/advise", "runtime/ops", "runtime/plan", "runtime/prepare", "runtime/report", "runtime/search"],
}
INCLUDE = re.compile(r'^\s*#\s*include "((?:modular|generated|generator|checks|runtime)/[^"]+)"', re.MULTILINE)


def get_folder(path):
    """Returns the deepest folder above that contains `path`."""
    return max((folder for folder in MAY_INCLUDE if path.startswith(folder + "/")), key=len, default=path)


def main():
    project = pathlib.Path(sys.argv[1])
    built = {"generator/build_config.h", "checks/build_identity.h"}
    # The build converts X.py, and the report's X, to X.inc.
    for source in [*project.glob("runtime/**/*.py"), *project.glob("runtime/report/*.js"), *project.glob("runtime/report/*.css")]:
        included = source.with_suffix(".inc") if source.suffix == ".py" else pathlib.Path(f"{source}.inc")
        built.add(included.relative_to(project).as_posix())
    wrong, seen = [], 0
    for top in sorted({folder.split("/")[0] for folder in MAY_INCLUDE}):
        for file in sorted((project / top).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cu"):
                continue
            name = file.relative_to(project).as_posix()
            text = file.read_text()
            for match in INCLUDE.finditer(text):
                seen += 1
                target, here = get_folder(match[1]), get_folder(name)
                line = text.count("\n", 0, match.start(1)) + 1
                if match[1] not in built and not (project / match[1]).exists():
                    wrong.append(f"{name}:{line}: {match[1]} does not exist")
                elif target != here and target not in MAY_INCLUDE.get(here, []):
                    wrong.append(f"{name}:{line}: {here}/ may not include {match[1]}")
    print(*wrong, f"{seen} includes, {len(wrong)} against the direction", sep="\n")
    return 1 if wrong or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
