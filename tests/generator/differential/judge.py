"""Compares programs: their specs as C++ and what modgen makes of them, many in one translation unit.

Two programs are built of a batch, as both have the same namespaces: the oracle, and the generated files. Each has the batch's drivers
and prints what its objects compute. What does not compile is taken out, by the errors' file names or by halves, and the rest continues.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile

from model import FAMILIES
from tree import text

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MENTIONED = re.compile(r"\b(?:" + "|".join(FAMILIES) + r"|program)(\d+)\.h")
LOCATED = re.compile(r"^\S*?([a-z]+\d+)\.h:(\d+):(\d+): error: (.*)$", re.MULTILINE)
UNDEFINED = ["-fsanitize=undefined", "-fsanitize-trap=undefined", "-fno-sanitize=vptr,function"]
SLOW = 14  # SIGALRM: a program that would run for long is no defect if the oracle does


@dataclasses.dataclass
class Verdict:
    """What became of a chain; `rejected` has the messages for those of its families that modgen does not take, by level."""

    kind: str  # same, differs, rejected (all of it), crash, invalid (what was generated is no C++), slow, unlocated, fuzzer (the oracle is no C++)
    detail: str = ""
    rejected: dict = dataclasses.field(default_factory=dict)


class Judge:
    def __init__(self, modgen, clang, torch, cache, shipped=None, timeout=600):
        self.modgen, self.clang, self.torch, self.cache = modgen, clang, torch, cache
        self.shipped, self.timeout = shipped or ROOT, timeout
        self.flags = ["-std=c++20", "-O0", "-w", "-ferror-limit=0", "-Xclang", "-fno-pch-timestamp", f"-I{self.shipped}", f"-I{HERE}", "-isystem", f"{torch}/include",
                      "-isystem", f"{torch}/include/torch/csrc/api/include"]
        self.headers = {}

    # ---- Building ----

    def prepare(self):
        """Compiles what both programs include, once."""
        for oracle, prelude in ((True, "modular/modular.h"), (False, "runtime/model/model.h")):
            name = "oracle" if oracle else "generated"
            code = f'#include "{prelude}"\n#include "support.h"\nusing differential::show;\nusing differential::get_names;\nusing differential::described;\n'
            key = hashlib.sha256(repr((self.flags, code)).encode())
            for file in sorted([HERE / "support.h", self.shipped / "modular/modular.h", *(self.shipped / "runtime/model").glob("*.h")]):
                key.update(file.read_bytes())
            header = self.cache / f"{name}-{key.hexdigest()[:16]}.h"
            self.headers[oracle] = header
            compiled = header.with_suffix(".pch")
            if not compiled.exists():
                self.cache.mkdir(parents=True, exist_ok=True)
                header.write_text(code)
                made = compiled.with_suffix(f".{os.getpid()}")
                done = self.compiled(["-Xclang", "-fpch-instantiate-templates", "-x", "c++-header", header, "-o", made])
                if done.returncode != 0:
                    raise RuntimeError(f"the contract does not compile:\n{done.stderr[:4000]}")
                made.rename(compiled)

    def compiled(self, arguments):
        return subprocess.run([self.clang, *self.flags, *arguments], capture_output=True, text=True, errors="replace")

    def build(self, folder, programs, generated, checks=(), rejected=None):
        """Builds and runs one of the two programs: outputs by number and level, and errors by number. `generated`: whether it is of the
        generated files; `checks`: further flags for the compiler; `rejected`: levels by number that there is nothing of."""
        errors, left = {}, dict(programs)
        while left:
            found, stderr = self.try_build(folder, left, generated, checks, rejected or {})
            if found is not None:
                return found, errors
            failed = {number: error for number, error in attributed(stderr).items() if number in left}
            if not failed:
                failed = self.halved(folder, left, generated, checks, rejected or {}, stderr)
            errors.update(failed)
            left = {number: program for number, program in left.items() if number not in failed}
        return {}, errors

    def halved(self, folder, programs, generated, checks, rejected, stderr):
        """Which programs fail where no error says so."""
        if "precompiled header" in stderr:
            raise RuntimeError(stderr[:4000])
        if len(programs) == 1:
            return {number: stderr for number in programs}
        numbers, failed = sorted(programs), {}
        for half in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
            some = {number: programs[number] for number in half}
            found, stderr = self.try_build(folder, some, generated, checks, rejected)
            if found is None:
                failed.update(self.halved(folder, some, generated, checks, rejected, stderr))
        return failed

    def try_build(self, folder, programs, generated, checks, rejected):
        name = "generated" if generated else "oracle"
        cases, includes = [], []
        for number, program in sorted(programs.items()):
            parts = []
            if generated:
                parts = [f'#include "{folder}/generated/{FAMILIES[level]}{number}.h"\n'
                         for level in sorted(program.specs) if level not in rejected.get(number, ())]
            else:
                parts += [text(spec, True, number) for _, spec in sorted(program.specs.items())]
                parts.append(text(program.tail, True, number))
            for level, driver in sorted(program.drivers.items()):
                if level in rejected.get(number, ()):
                    continue
                parts.append(f"inline void run_{number}_{level}() {{\n{text(driver, not generated, number)}}}\n")
                cases.append(f"{{{number}, {level}, &run_{number}_{level}}}, ")
            file = folder / name / f"program{number}.h"
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(parts))
            includes.append(f'#include "{file}"\n')
        source, object_file, binary = (folder / f"{name}{suffix}" for suffix in (".cc", ".o", ""))
        binary = folder / f"{name}.bin"
        source.write_text("".join(includes) + f"int main() {{ return differential::run_all(std::vector<differential::Case>{{{''.join(cases)}}}); }}\n")
        header = self.headers[not generated]
        done = self.compiled(["-include-pch", header.with_suffix(".pch"), *checks, "-c", source, "-o", object_file])
        if done.returncode == 0:
            libraries = [f"{self.torch}/lib/libtorch_cpu.so", f"{self.torch}/lib/libc10.so", f"-Wl,-rpath,{self.torch}/lib",
                         "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-fuse-ld=lld"]
            done = self.compiled([*checks, object_file, "-o", binary, *libraries])
        if done.returncode != 0:
            return None, done.stderr
        # What reads memory that nothing has written finds something else each time.
        filled = {**os.environ, "MALLOC_PERTURB_": "170" if generated or checks else "85"}
        ran = subprocess.run([binary], capture_output=True, text=True, errors="replace", env=filled)
        if ran.returncode != 0:
            raise RuntimeError(f"the driver of a batch fails, exit code {ran.returncode}:\n{ran.stderr[:4000]}")
        return outputs(ran.stdout), ""

    # ---- modgen ----

    def flatten(self, folder, programs):
        """Runs modgen over a batch: messages for the families that it does not take, by number and level, and verdicts of chains where
        it fails otherwise. It writes all families of a run or none, and says what is wrong with several at once."""
        rejected, verdicts = {}, {}
        for number, program in programs.items():
            for level, spec in program.specs.items():
                path = folder / f"modular/{FAMILIES[level]}{number}.h"
                path.parent.mkdir(exist_ok=True)
                path.write_text(indented(text(spec, False, number)))
        groups = [sorted(programs)]
        while groups:
            numbers = groups.pop()
            left = [(number, level) for number in numbers for level in sorted(programs[number].specs)
                    if level not in rejected.get(number, {})]
            if not left:
                continue
            done = self.run_modgen(folder, left)
            if done.returncode == 0:
                continue
            found = located(done.stderr, programs) if done.returncode == 2 else {}
            found = {one: message for place, message in found.items() for one in stopped_by(place, programs, left)}
            for (number, level), message in found.items():
                rejected.setdefault(number, {})[level] = message
            if found:
                groups.append(numbers)
            elif len(numbers) > 1:
                groups += [numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]]
            else:
                kind = "unlocated" if done.returncode == 2 else "crash"
                verdicts[numbers[0]] = Verdict(kind, f"modgen: {done.returncode}\n{done.stderr[-3000:]}")
        return rejected, verdicts

    def run_modgen(self, folder, families):
        """Over families, each a number and a level."""
        names = [f"{FAMILIES[level]}{number}" for number, level in families]
        command = [self.modgen, "--root", folder, "--shipped", self.shipped, "--jobs", "1", *names]
        try:
            return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", "modgen: no end")

    # ---- Verdicts ----

    def judge(self, programs):
        """The verdicts over programs, by number."""
        with tempfile.TemporaryDirectory(prefix="differential-") as name:
            folder = pathlib.Path(name)
            rejected, verdicts = self.flatten(folder, programs)
            expected, wrong = self.build(folder, programs, generated=False)
            verdicts.update({number: Verdict("fuzzer", error[:3000]) for number, error in wrong.items()})
            for number, messages in rejected.items():
                if number not in verdicts and len(messages) == len(programs[number].specs):
                    verdicts[number] = Verdict("rejected", messages[min(messages)])
            left = {number: program for number, program in programs.items() if number not in verdicts}
            made, invalid = self.build(folder, left, generated=True, rejected=rejected) if left else ({}, {})
            verdicts.update({number: Verdict("invalid", error[:3000]) for number, error in invalid.items()})
            for number in left:
                if number not in verdicts:
                    verdicts[number] = compared(expected[number], made[number])
            for number, messages in rejected.items():
                verdicts[number].rejected = messages
            return {number: verdicts[number] for number in sorted(verdicts)}

    def check_oracle(self, programs):
        """Whether the oracle of each program is valid and means one thing only."""
        with tempfile.TemporaryDirectory(prefix="differential-") as name:
            folder = pathlib.Path(name)
            found, wrong = self.build(folder, programs, generated=False)
            verdicts = {number: Verdict("fuzzer", error[:3000]) for number, error in wrong.items()}
            left = {number: program for number, program in programs.items() if number not in wrong}
            again, wrong = self.build(folder, left, False, UNDEFINED)
            if wrong:
                raise RuntimeError(f"the sanitized oracle does not compile:\n{next(iter(wrong.values()))}")
            for number in left:
                one = compared(found[number], again[number])
                verdicts[number] = one if one.kind in ("same", "slow") else Verdict("fuzzer", one.detail)
            return verdicts

    def generated(self, program, number=0):
        """The generated files of one program, for a report."""
        with tempfile.TemporaryDirectory(prefix="differential-") as name:
            folder = pathlib.Path(name)
            self.flatten(folder, {number: program})
            return {path.name: path.read_text() for path in sorted((folder / "generated").glob("*.h"))}


def compared(expected, made):
    """Of the outputs of one program by level."""
    if any(status == SLOW for status, _ in expected.values()):
        return Verdict("slow")
    broken = [level for level, (status, _) in expected.items() if status]
    if broken:
        return Verdict("fuzzer", f"the oracle of level {broken[0]} ends with status {expected[broken[0]][0]}")
    for level, (_, right) in sorted(expected.items()):
        if level not in made:  # modgen does not take it
            continue
        status, lines = made[level]
        for line, other in zip(right, lines):
            if line != other:
                return Verdict("differs", f"{FAMILIES[level]}: C++ has `{line.strip()}`, generated `{other.strip()}`")
        if status:
            return Verdict("crash", f"{FAMILIES[level]}: status {status} after `{(lines or ['nothing'])[-1].strip()}`")
        if len(right) != len(lines):
            return Verdict("differs", f"{FAMILIES[level]}: {len(right)} lines, {len(lines)} generated")
    return Verdict("same")


def outputs(stdout):
    """Status and lines by program and level."""
    result, lines = {}, []
    for line in stdout.splitlines():
        if line.startswith("= "):
            number, level, status = map(int, line[2:].split())
            result.setdefault(number, {})[level] = (status, lines)
            lines = []
        else:
            lines.append(line)
    return result


def attributed(stderr):
    """The programs that errors name, with the first error of each."""
    found = {}
    blocks = re.split(r"(?m)^(?=.*(?:fatal )?error: |In file included from (?:(?!\n(?!In file| {17})).)*?$)", stderr)
    before = ""
    for block in blocks:
        if "error: " not in block.partition("\n")[0]:
            before += block
            continue
        line = block.partition("\n")[0]
        numbers = MENTIONED.findall(line) or MENTIONED.findall(block) or MENTIONED.findall(before)
        if numbers:
            found.setdefault(int(numbers[0]), block)
        before = ""
    return found


def located(stderr, programs):
    """The first message at a place of each of the programs' specs, by number and level."""
    matches, found = list(LOCATED.finditer(stderr)), {}
    for index, match in enumerate(matches):
        name = re.fullmatch(r"([a-z]+)(\d+)", match[1])
        number, level = int(name[2]), FAMILIES.index(name[1]) if name[1] in FAMILIES else -1
        end = matches[index + 1].start() if index + 1 < len(matches) else match.start() + 1500
        if number in programs and level in programs[number].specs:
            found.setdefault((number, level), stderr[match.start() : end].strip())
    return found


def stopped_by(place, programs, families):
    """Which of the families, pairs of number and level, an error in a spec stops: its own, and where that was left out already, those that
    derive from it."""
    if place in families:
        return [place]
    number, level = place
    name = f'"modular/{FAMILIES[level]}{number}.h"'
    return [one for one in families if one[0] == number and name in text(programs[number].specs[one[1]], False, number)]


def indented(code):
    """The code with its lines indented by the braces before them, for people."""
    depth, lines = 0, []
    for line in code.splitlines():
        stripped = line.strip()
        closes = stripped.startswith("}")
        inner = depth - (1 if closes else 0)
        lines.append(("" if stripped.startswith("#") else "  " * max(0, inner - 1)) + stripped if stripped else "")
        depth += stripped.count("{") - stripped.count("}")
    return "\n".join(lines) + "\n"
