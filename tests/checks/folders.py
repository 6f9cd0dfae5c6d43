"""The folders' dependencies point one way: a folder includes itself and what is listed for its name here, as docs/internals/overview.md has it.

    folders.py PROJECT
"""

import pathlib
import re
import sys

CONTRACT = ["runtime/model"]
PARALLEL = [*CONTRACT, "runtime/files", "runtime/mesh", "runtime/parallel"]
TRAIN = [*PARALLEL, "runtime/optim", "runtime/data", "runtime/checkpoint", "runtime/parquet", "runtime/evaluation", "runtime/tokenizer", "runtime/train"]
STAGES = ["generator/source", "generator/parse", "generator/resolve", "generator/flatten", "generator/validate", "generator/model", "generator/weave", "generator/print"]

MAY_INCLUDE = {
    "modular": CONTRACT,
    "generated": CONTRACT,
    **{stage: STAGES[:at] for at, stage in enumerate(STAGES)},
    "generator": STAGES,
    "generator/tool": ["generator", *STAGES, "checks"],  # of checks the records, which both programs read
    "checks": ["generator", "generator/source"],
    "runtime/model": [],
    "runtime/files": [],
    "runtime/mesh": [],
    "runtime/ops": CONTRACT,
    "runtime/parallel": PARALLEL,
    "runtime/optim": [*PARALLEL, "runtime/ops"],
    "runtime/data": PARALLEL,
    "runtime/checkpoint": PARALLEL,
    "runtime/parquet": [*PARALLEL, "runtime/data", "runtime/checkpoint"],
    "runtime/evaluation": [*PARALLEL, "runtime/data", "runtime/checkpoint"],
    "runtime/tokenizer": [*CONTRACT, "runtime/files", "runtime/mesh", "runtime/checkpoint", "runtime/launch"],
    "runtime/train": [*TRAIN, "runtime/launch"],
    "runtime/prepare": [*TRAIN, "runtime/launch"],
    "runtime/search": [*TRAIN, "runtime/launch"],
    "runtime/report": [*TRAIN, "runtime/search"],
    "runtime/plan": [*TRAIN, "runtime/ops"],
    "runtime/advise": [*TRAIN, "runtime/plan"],
    "runtime/launch": ["runtime/files", "runtime/mesh"],
    "runtime/modrun": [*TRAIN, "runtime/advise", "runtime/launch", "runtime/ops", "runtime/plan", "runtime/prepare", "runtime/report", "runtime/search"],
}
INCLUDE = re.compile(r'^\s*#\s*include "((?:modular|generated|generator|checks|runtime)/[^"]+)"', re.MULTILINE)


def get_folder(path):
    """The most exact of the folders above that `path` lies in."""
    return max((folder for folder in MAY_INCLUDE if path.startswith(folder + "/")), key=len, default=path)


def main():
    project = pathlib.Path(sys.argv[1])
    built = {"generator/build_config.h", "checks/build_identity.h"}
    # The build turns X.py, and the report's X, into X.inc.
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
                    wrong.append(f"{name}:{line}: there is no {match[1]}")
                elif target != here and target not in MAY_INCLUDE.get(here, []):
                    wrong.append(f"{name}:{line}: {here}/ may not include {match[1]}")
    print(*wrong, f"{seen} includes, {len(wrong)} against the direction", sep="\n")
    return 1 if wrong or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
