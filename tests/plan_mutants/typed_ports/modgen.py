"""modgen's verdicts on changed specs."""

import json
import pathlib
import re
import subprocess
import tempfile

CALL = re.compile(r"\btp::(?:enter|exit|part|whole|shared|reduce|partial|embedding|cross_entropy_outputs)\(")
ADDED = "    const Tensor added_{} = {};\n"


class Specs:
    def __init__(self, modgen, project):
        self.modgen, self.project = modgen, pathlib.Path(project)

    def run(self, family, *options, changes=(), added=None):
        """Runs modgen on copies of the specs with `changes` and the statements `added`: (place, text) pairs by
        number. Returns the process, the generated text, if it was asked for, and the lines of the specs."""
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root) / "modular"
            folder.mkdir()
            for spec in (self.project / "modular").glob("*.h"):
                if spec.name != "modular.h":  # modgen ships it
                    (folder / spec.name).write_text(spec.read_text())
            for file, before, after in changes:
                spec = (folder / file).read_text()
                assert spec.count(before) == 1, f"{file} does not have once: {before}"
                (folder / file).write_text(spec.replace(before, after))
            for number, (place, text) in (added or {}).items():
                file, line, _ = family.places[place]
                spec = (folder / file).read_text()
                assert line in spec, f"{file} does not have: {line}"
                (folder / file).write_text(spec.replace(line, ADDED.format(number, text) + line))
            if not options:
                (pathlib.Path(root) / "out").mkdir()
                options = ("--output-dir", f"{root}/out")
            lines = {f"modular/{spec.name}": spec.read_text().splitlines() for spec in folder.iterdir()}
            command = [self.modgen, "--root", root, "--jobs", "1", *options, family.name]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            out = pathlib.Path(root) / "out" / f"{family.name}.h"
            return process, out.read_text() if out.exists() else "", lines

    def plan(self, family, changes=()):
        """The entry's plan, or None if modgen rejects the change."""
        process, _, _ = self.run(family, "--emit", "plan", changes=changes)
        return None if process.returncode else json.loads(process.stdout)[family.entry]

    def verdicts(self, family, added):
        """The readings in which modgen rejects each of the statements `added`, by number. In the reading of sequence
        parallelism it does not reject: a statement that needs all positions gets a call that gathers them."""
        rejected, left = {number: set() for number in added}, dict(added)
        while True:
            process, _, lines = self.run(family, "--emit", "plan", "--format", "text", added=left)
            if process.returncode:
                # An error prints its line, and in inherited code the base's line in a note.
                found = process.stderr.split(": error: ")[1:]
                assert found, process.stderr
            else:
                found = [
                    f"{message}\n{lines[file][int(line) - 1]}"
                    for file, line, message in re.findall(
                        rf"{family.name}: {family.entry}: .*\n  (\S+):(\d+):\d+: (no context parallelism: .*)",
                        process.stdout,
                    )
                ]
            if not found:
                break
            for text in found:
                message, code = text.split("\n", 1)
                statement = re.search(r"\badded_(\d+) =", code)
                assert statement, text  # an error must be at the line of its statement
                number = int(statement[1])
                reading = "tp"
                if "no context parallelism" in message:
                    reading = "cp"
                elif "rows of the batch" in message:
                    reading = "dp"
                rejected[number].add(reading)
                left.pop(number, None)
        kept = {number: text for number, text in added.items() if not rejected[number] & {"tp", "dp"}}
        _, generated, _ = self.run(family, added=kept)
        for number in kept:
            if any("tp::whole(" in text for text in re.findall(rf"added_{number} =([^;]*);", generated)):
                rejected[number].add("sequence")
        return rejected


def class_texts(generated):
    """The text of each class of a generated file, without the ending of its name."""
    return dict(re.findall(r"\nclass (\w+)Impl : public Module \{(.*?)\n\};\n", generated, re.S))
