"""Compares programs: their specs as C++ and what modgen makes of them, many in one translation unit.

Two programs are built of a batch, as both have the same namespaces: the oracle, and the generated files. Each has the batch's drivers
and prints what its objects compute. What does not compile is taken out, by the errors' file names or by halves, and the rest goes on.
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
    kind: str  # same, differs, refused, crash, invalid (what was generated is no C++), slow, unlocated, fuzzer (the oracle is no C++)
    detail: str = ""


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
            code = f'#include "{prelude}"\n#include "support.h"\nusing differential::show;\nusing differential::names_of;\n'
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

    def build(self, folder, programs, generated, checks=()):
        """Builds and runs one of the two programs: outputs by number and level, and errors by number. `generated`: whether it is of the
        generated files; `checks`: further flags for the compiler."""
        errors, left = {}, dict(programs)
        while left:
            found, stderr = self.try_build(folder, left, generated, checks)
            if found is not None:
                return found, errors
            failed = {number: error for number, error in attributed(stderr).items() if number in left}
            if not failed:
                failed = self.halved(folder, left, generated, checks, stderr)
            errors.update(failed)
            left = {number: program for number, program in left.items() if number not in failed}
        return {}, errors

    def halved(self, folder, programs, generated, checks, stderr):
        """Which programs fail where no error says so."""
        if "precompiled header" in stderr:
            raise RuntimeError(stderr[:4000])
        if len(programs) == 1:
            return {number: stderr for number in programs}
        numbers, failed = sorted(programs), {}
        for half in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
            some = {number: programs[number] for number in half}
            found, stderr = self.try_build(folder, some, generated, checks)
            if found is None:
                failed.update(self.halved(folder, some, generated, checks, stderr))
        return failed

    def try_build(self, folder, programs, generated, checks):
        name = "generated" if generated else "oracle"
        cases, includes = [], []
        for number, program in sorted(programs.items()):
            parts = []
            if generated:
                parts = [f'#include "{folder}/generated/{family}{number}.h"\n' for family in program.families]
            else:
                parts += [text(spec, True, number) for _, spec in sorted(program.specs.items())]
                parts.append(text(program.tail, True, number))
            for level, driver in sorted(program.drivers.items()):
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
        """Runs modgen over a batch: verdicts of those that it does not take. It writes all families of a run or none, and says what is
        wrong with several at once."""
        verdicts, left = {}, dict(programs)
        for number, program in programs.items():
            for index, spec in program.specs.items():
                path = folder / f"modular/{FAMILIES[index]}{number}.h"
                path.parent.mkdir(exist_ok=True)
                path.write_text(indented(text(spec, False, number)))
        while left:
            done = self.run_modgen(folder, left)
            if done.returncode == 0:
                break
            refused = {}
            for match in LOCATED.finditer(done.stderr):
                number = int(re.search(r"\d+$", match[1])[0])
                if number in left:
                    refused.setdefault(number, Verdict("refused", located_message(done.stderr, match.start())))
            if done.returncode != 2 or not refused:
                refused = self.flatten_alone(folder, left)
            verdicts.update(refused)
            left = {number: program for number, program in left.items() if number not in refused}
        return verdicts

    def flatten_alone(self, folder, programs):
        """What becomes of each where a whole batch fails without saying whose fault it is."""
        verdicts = {}
        for number, program in programs.items():
            done = self.run_modgen(folder, {number: program})
            if done.returncode == 0:
                continue
            match = LOCATED.search(done.stderr)
            if done.returncode == 2 and match:
                verdicts[number] = Verdict("refused", located_message(done.stderr, match.start()))
            else:
                verdicts[number] = Verdict("unlocated" if done.returncode == 2 else "crash", f"modgen: {done.returncode}\n{done.stderr[-3000:]}")
        return verdicts

    def run_modgen(self, folder, programs):
        families = [f"{family}{number}" for number, program in sorted(programs.items()) for family in program.families]
        command = [self.modgen, "--root", folder, "--shipped", self.shipped, "--jobs", "1", *families]
        try:
            return subprocess.run(command, capture_output=True, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", "modgen: no end")

    # ---- Verdicts ----

    def judge(self, programs):
        """The verdicts over programs, by number."""
        with tempfile.TemporaryDirectory(prefix="differential-") as name:
            folder = pathlib.Path(name)
            verdicts = self.flatten(folder, programs)
            expected, wrong = self.build(folder, programs, generated=False)
            verdicts.update({number: Verdict("fuzzer", error[:3000]) for number, error in wrong.items()})
            left = {number: program for number, program in programs.items() if number not in verdicts}
            made, invalid = self.build(folder, left, generated=True) if left else ({}, {})
            verdicts.update({number: Verdict("invalid", error[:3000]) for number, error in invalid.items()})
            for number in left:
                if number not in verdicts:
                    verdicts[number] = compared(expected[number], made[number])
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


def located_message(stderr, start):
    """The message at `start` with what stands below it."""
    end = LOCATED.search(stderr, start + 1)
    end = LOCATED.search(stderr, stderr.index("\n", start)) if end else None
    return stderr[start : end.start() if end else start + 1500].strip()


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
