"""Builds programs of the generator with defects: patches of its sources, compiled as a build folder compiles them and linked with what was built
there. differential/planted.py and proof_fuzz/planted.py plant them.

A patch changes one source file. Lines before it say what goes wrong and, after "Shown by: ", which feature of the fuzzer's programs shows it: others
have nothing to do with it, so that only the programs with that feature are run."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN_BY = "Shown by: "
INCLUDED = re.compile(r'#include "([^"]+\.cc)"')


def applied(patch, folder):
    """The file that a patch changes, and where `folder` has it changed; it starts from what `folder` has of it already."""
    file = next(line[6:].split("\t")[0] for line in patch.read_text().splitlines() if line.startswith("+++ b/"))
    changed = folder / file
    if not changed.exists():
        changed.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, changed)
    before = changed.read_bytes()
    done = subprocess.run(["git", "apply", "-C1", patch], cwd=folder, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
                          capture_output=True, text=True)
    if done.returncode != 0 or changed.read_bytes() == before:
        raise RuntimeError(f"{patch} does not apply: {done.stderr.strip()}\nmake it again from {file} as it is now")
    return file, changed


def shown_by(patch):
    """The feature of a fuzzer that shows the defect, as the patch says; None where any may."""
    lines = [line.removeprefix(SHOWN_BY).strip() for line in patch.read_text().splitlines() if line.startswith(SHOWN_BY)]
    return lines[0] if lines else None


def check(patches, folder):
    """Whether each patch applies by itself."""
    for patch in patches:
        applied(patch, folder / patch.stem)


class Builder:
    """Builds changed programs from what a build folder holds."""

    def __init__(self, build, program):
        self.build, self.program = build, program
        self.commands, self.units = {}, {}
        for one in json.loads((build / "compile_commands.json").read_text()):
            source = pathlib.Path(one["file"])
            self.commands.setdefault(source, one)
            # A file is compiled by itself, or in a unity build with others.
            for included in INCLUDED.findall(source.read_text()) if source.parent.name == "Unity" else [source]:
                self.units.setdefault(pathlib.Path(included), source)
        asked = subprocess.run(["ninja", "-C", build, "-t", "commands", f"bin/{program}"], check=True, capture_output=True, text=True)
        self.link = asked.stdout.splitlines()[-1]

    def built(self, patches, folder):
        """Where `folder` has the program with all of these patches. Its objects come before the library that has the same."""
        folder.mkdir(parents=True)
        changed = dict(applied(patch, folder) for patch in patches)
        objects = []
        for unit in sorted({self.units[ROOT / file] for file in changed}):
            source = folder / f"unit{len(objects)}.cc"
            text = unit.read_text() if unit.parent.name == "Unity" else f'#include "{unit}"\n'
            for file, copy in changed.items():
                text = text.replace(f'"{ROOT / file}"', f'"{copy}"')
            source.write_text(text)
            command = shlex.split(self.commands[unit]["command"])
            objects.append(source.with_suffix(".o"))
            command[command.index("-o") + 1], command[command.index("-c") + 1] = str(objects[-1]), str(source)
            self.run([*command, "-w"], self.commands[unit]["directory"])
        first, *others = shlex.split(self.link.removeprefix(": && ").removesuffix(" && :"))
        others[others.index("-o") + 1] = str(folder / self.program)
        self.run([first, *map(str, objects), *others], self.build)
        return folder / self.program

    @staticmethod
    def run(command, folder):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(map(str, command))}\n{done.stderr[-4000:]}")
