"""Stops runs or kills their ranks at random times, and checks that they continue as if nothing had happened.

usage: disturb.py --modrun build/ci/bin/modrun [--cause terminate] [--count 100] [--seed 1] [--strategies ddp,tp] [--only 17] [--torchrun FILE]

A small model with dropout trains on a mesh. One undisturbed run per strategy is the reference for all others. Fault times are uniformly
distributed from the start of the launcher, or of torchrun's ranks, to shortly after the end of a run, with `--count` faults per cause.

  terminate           SIGTERM to modrun's launcher, or to it and all of its ranks; then `train --resume=auto`, which is disturbed as well
  terminate_torchrun  SIGTERM to a rank, to all ranks or to torchrun itself; then the same
  kill                SIGKILL to a rank of `modrun --max-restarts`, which restarts all ranks by itself; then to a restarted rank
  freeze              the same with SIGSTOP; the rank must be reported as frozen within two seconds

In the end, losses of all steps and the last checkpoint equal those of the undisturbed run bit by bit; everything trained before a SIGTERM was
saved; the run's folder, its checkpoints and the temporary folder contain no other files; no process is left; the exit status is right; and
the output names a killed rank and the cause. A failing case is kept in the folder that is printed, and `--only` repeats it by its number,
though not with exactly the same timing.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 40
STRATEGIES = {  # ranks, config overrides
    "ddp": (3, ["parallel.dp_replicate=3"]),
    "zero1": (3, ["parallel.zero_stage=1"]),
    "zero2": (3, ["parallel.zero_stage=2", "train.micro_batches=2"]),
    "fsdp": (3, []),
    "tp": (4, ["parallel.tp=4"]),
    "pp": (2, ["parallel.pp=2", "train.micro_batches=2"]),
    "sent": (3, ["checkpoint.shared=false"]),
}
CONFIG = """
[model]
entry = 'GPT2LMHeadModel'
[model.config]
vocab_size = 256
n_positions = 32
n_embd = 32
n_layer = 4
n_head = 4
[train]
steps = {steps}
batch_size = 12
seq_len = 32
[optim]
lr = 3e-3
warmup_steps = 2
[eval]
every = 15
samples = 12
[checkpoint]
every = 7
[data]
held_out_every = 4
paths = ['data']
"""
RUN_FILES = {"config.toml", "data.manifest", "metrics.jsonl", "checkpoints", "run.lock", "run.job"}
END_WITHIN = 25.0  # seconds after a signal, on a loaded machine; hanging ranks are killed after 30
MARK = "MODULAR_FAULTS_RUN"


class Wrong(Exception):
    """A violated expectation."""


def environment_for(process):
    try:
        return dict(entry.split(b"=", 1) for entry in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0") if b"=" in entry)
    except OSError:
        return {}


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Program:
    """A running launcher and its ranks."""

    def __init__(self, words, folder, number):
        self.temporary = folder / f"tmp-{number}"
        self.temporary.mkdir()
        self.output_file = folder / f"output-{number}"
        self.mark = f"{folder.name}-{number}-{os.getpid()}"
        variables = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        variables |= {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", MARK: self.mark}
        with self.output_file.open("w") as output:
            self.process = subprocess.Popen(words, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True)

    def output(self):
        return self.output_file.read_text(errors="replace")

    def living(self):
        mark = self.mark.encode()
        return [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                if entry.name.isdigit() and environment_for(entry.name).get(MARK.encode()) == mark and is_alive(entry.name)]

    def ranks(self):
        """Returns the processes of running ranks, by rank."""
        try:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except OSError:
            return {}
        found = {environment_for(child).get(b"RANK"): int(child) for child in children if is_alive(child)}
        return {int(rank): child for rank, child in found.items() if rank is not None}

    def wait(self, seconds):
        """Returns the exit status as in a shell. Kills remaining processes."""
        try:
            status = self.process.wait(seconds)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
        deadline = time.monotonic() + 5.0
        while not hung and (living := self.living()) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = self.living()
        commands = [pathlib.Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200] for process in left if is_alive(process)]
        for process in left:
            os.kill(process, signal.SIGKILL)
        if hung:
            self.process.wait()
            raise Wrong(f"the job had not ended {seconds:.0f} s after the signal")
        if left:
            raise Wrong(f"processes are still running: {commands}")
        return status if status >= 0 else 128 - status

    def wait_until(self, moment):
        """Waits until `moment`; returns whether the program is still running."""
        while (left := moment - time.monotonic()) > 0:
            try:
                self.process.wait(left)
                return False
            except subprocess.TimeoutExpired:
                pass
        return self.process.poll() is None


class Case:
    """One run in its own folder, which is disturbed and resumed until it completes."""

    def __init__(self, tool, strategy, folder):
        self.tool, self.strategy, self.folder = tool, strategy, folder
        folder.mkdir()
        (folder / "data").symlink_to(tool.folder / "data")
        self.run = folder / "run"
        self.programs = 0

    def start(self, launcher, options=("--resume=auto",)):
        ranks, settings = STRATEGIES[self.strategy]
        words = [*launcher(ranks), "train", str(self.tool.config), "--set", "train.dir=run", *options]
        for setting in settings:
            words += ["--set", setting]
        self.programs += 1
        return Program(words, self.folder, self.programs)

    def modrun(self, *flags):
        return lambda ranks: [self.tool.modrun, "--nproc-per-node", str(ranks), *flags]

    def torchrun(self, ranks):
        return [self.tool.torchrun, "--standalone", "--nproc-per-node", str(ranks), "--no-python", self.tool.modrun]

    def lines(self):
        """Returns the lines of metrics.jsonl so far, without an incomplete last line."""
        try:
            text = (self.run / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def steps(self):
        return [line for line in self.lines() if "event" not in line]

    def is_done(self):
        return any(line.get("event") == "end" and "stopped_by" not in line for line in self.lines())

    def newest_step(self):
        latest = self.run / "checkpoints/latest"
        return int(latest.read_text().split()[0].removeprefix("step-")) if latest.exists() else 0

    def losses(self):
        return [(step["step"], step["loss"], step["grad_norm"]) for step in self.steps()]

    def checkpoint(self):
        folder = self.run / "checkpoints" / f"step-{STEPS:08}"
        return {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}

    def check_left(self, program, may_stay):
        left = [entry.name for entry in program.temporary.iterdir() if not may_stay(entry.name)]
        if left:
            raise Wrong(f"the temporary folder contains {left}")

    def check_done(self, reference):
        """Checks that the run is complete and equal to the undisturbed run."""
        if not self.is_done():
            raise Wrong("metrics.jsonl has no end event")
        if self.losses() != reference.losses():
            raise Wrong("losses differ from the undisturbed run")
        if self.checkpoint() != reference.checkpoint() or not self.checkpoint():
            raise Wrong("the last checkpoint differs from the undisturbed run")
        if left := {entry.name for entry in self.run.iterdir()} - RUN_FILES:
            raise Wrong(f"the run's folder contains {left}")
        listed = (self.run / "checkpoints/latest").read_text().split()
        found = {entry.name for entry in (self.run / "checkpoints").iterdir()}
        if found != {"latest", *listed} or len(listed) > 2:
            raise Wrong(f"the run's checkpoints are {sorted(found)}, and latest lists {listed}")


def where(case):
    """Describes the progress of a run."""
    steps = len(case.steps())
    return "before the first step" if steps == 0 else "while it trains" if steps < STEPS else "after the last step"


def terminate(case, rng, reference, tool, torchrun):
    """Stops a run up to three times with SIGTERM, and resumes it until it completes."""
    for _ in range(rng.randint(1, 3)):
        program = case.start(case.torchrun if torchrun else case.modrun())
        target = rng.choice(["a rank", "all ranks", "torchrun"] if torchrun else ["the launcher", "the launcher", "the launcher and all ranks"])
        fraction = rng.uniform(0.0, 0.8 if torchrun else 1.1)
        if torchrun:  # exclude the startup of torchrun
            while not program.ranks() and program.process.poll() is None:
                time.sleep(0.01)
        running = program.wait_until(time.monotonic() + fraction * tool.seconds[case.strategy])
        ranks = sorted(program.ranks().items())
        if not running or (torchrun and not ranks):
            tool.count("after its end")
        else:
            tool.count(where(case))
        tool.say(f"SIGTERM to {target} {where(case)}")
        if target == "a rank":
            chosen = [process for _, process in rng.sample(ranks, min(1, len(ranks)))]
        elif target == "all ranks":
            chosen = [process for _, process in ranks]
        else:
            chosen = [process for _, process in ranks] if target == "the launcher and all ranks" else []
            chosen.append(program.process.pid)
        for process in chosen:
            if process != program.process.pid or program.process.poll() is None:
                try:
                    os.kill(process, signal.SIGTERM)
                except ProcessLookupError:
                    pass
        status = program.wait(END_WITHIN)
        done = case.is_done()
        right = {0, 1, 143} if torchrun else {0, 143}
        if status not in right or (status == 0 and not done):
            raise Wrong(f"the exit status is {status}, and the run is {'complete' if done else 'incomplete'}:\n{program.output()[-2000:]}")
        if len(case.steps()) != case.newest_step():
            raise Wrong(f"{len(case.steps())} steps were trained, and {case.newest_step()} saved:\n{program.output()[-2000:]}")
        # torchrun leaves its own folders behind.
        case.check_left(program, lambda name: torchrun and name.startswith(("torchelastic_", "tmp", "pymp-", "torchinductor")))
        if done:
            break
    program = case.start(case.modrun())
    if (status := program.wait(120.0)) != 0:
        raise Wrong(f"the exit status of the last part is {status}:\n{program.output()[-2000:]}")
    case.check_left(program, lambda name: False)
    case.check_done(reference)


NAMED_WITHIN = 2.0  # seconds after a rank was stopped
TOLERANCE = 1.0     # added to NAMED_WITHIN, for a loaded machine


def end_rank(case, rng, reference, tool, by):
    """Kills or stops ranks of a run up to three times; its launcher restarts them."""
    freezes = by == signal.SIGSTOP
    count = rng.randint(1, 3)
    program = case.start(case.modrun("--max-restarts", str(count)), rng.choice([(), ("--resume=auto",)]))
    expected, begin = [], time.monotonic()
    for attempt in range(count):
        running = program.wait_until(begin + rng.uniform(0.0, 1.05) * tool.seconds[case.strategy])
        while running and not program.ranks():
            running = program.wait_until(time.monotonic() + 0.005)
        ranks = program.ranks() if running else {}
        if not ranks:
            tool.count("after its end")
            break
        rank = rng.choice(sorted(ranks))
        tool.count(where(case))
        tool.say(f"{by.name} to rank {rank} {where(case)}")
        os.kill(ranks[rank], by)
        stopped = time.monotonic()
        expected.append(rank)
        while freezes and program.output().count("is frozen:") <= attempt and program.process.poll() is None and time.monotonic() < stopped + 30:
            time.sleep(0.005)
        if freezes and (taken := time.monotonic() - stopped) > NAMED_WITHIN + TOLERANCE and program.process.poll() is None:
            raise Wrong(f"rank {rank} was reported {taken:.2f} s after it was stopped:\n{program.output()[-2000:]}")
        tool.named.append(time.monotonic() - stopped)
        while f"starting the ranks again ({attempt + 1} of" not in program.output() and program.process.poll() is None:
            time.sleep(0.005)
        begin = time.monotonic()
    status, output = program.wait(120.0), program.output()
    if status != 0:
        raise Wrong(f"the exit status is {status}:\n{output[-2000:]}")
    ranks = STRATEGIES[case.strategy][0]
    what, why = ("is frozen", "its process is stopped") if freezes else ("failed", "killed by SIGKILL")
    named = [int(rank) for rank in re.findall(rf"^modrun: rank (\d) of {ranks} {what}; the job was stopped$", output, re.MULTILINE)]
    causes = re.findall(rf"^  why:   {why}", output, re.MULTILINE)
    # The last rank may have completed already.
    if named not in (expected, expected[:-1]) or len(causes) != len(named):
        raise Wrong(f"ranks {expected} were killed, and {named} reported, {len(causes)} of them with the cause:\n{output[-4000:]}")
    case.check_left(program, lambda name: f"/{name}/" in output)  # logs of failed ranks are kept and named
    case.check_done(reference)


CAUSES = {
    "terminate": lambda *given: terminate(*given, torchrun=False),
    "terminate_torchrun": lambda *given: terminate(*given, torchrun=True),
    "kill": lambda *given: end_rank(*given, by=signal.SIGKILL),
    "freeze": lambda *given: end_rank(*given, by=signal.SIGSTOP),
}


class Tool:
    def __init__(self, arguments, folder):
        self.modrun, self.torchrun = str(arguments.modrun.resolve()), arguments.torchrun
        self.verbose = arguments.verbose
        self.folder = folder
        self.config = folder / "small.toml"
        self.config.write_text(CONFIG.format(steps=STEPS))
        (folder / "data").mkdir()
        for file in range(8):
            lines = [f"line {line * (file + 3)} of file {file}\n" for line in range(40)]
            (folder / f"data/{file}.txt").write_text("".join(lines))
        self.seconds, self.reference = {}, {}
        self.moments = collections.Counter()
        self.named = []  # seconds from a rank's failure to its report

    def undisturbed(self, strategy):
        """Returns the reference run of a strategy. Also measures the duration of a run."""
        if strategy not in self.reference:
            times = []
            for name in ("first", "second"):
                case = Case(self, strategy, self.folder / f"{strategy}-{name}")
                begin = time.monotonic()
                program = case.start(case.modrun())
                if (status := program.wait(120.0)) != 0:
                    sys.exit(f"an undisturbed run of {strategy} ends with {status}:\n{program.output()}")
                times.append(time.monotonic() - begin)
                case.check_done(self.reference.setdefault(strategy, case))
            self.seconds[strategy] = statistics.mean(times)
            self.say(f"a run of {strategy} takes {self.seconds[strategy]:.2f} s")
        return self.reference[strategy]

    def count(self, moment):
        self.moments[moment] += 1

    def say(self, text):
        if self.verbose:
            print("  ", text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modrun", type=pathlib.Path, required=True)
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--cause", choices=CAUSES, default="terminate")
    parser.add_argument("--count", type=int, default=100 if os.environ.get("MODULAR_LONG_TESTS") else 4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--only", type=int)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no new case after this time")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    strategies = arguments.strategies.split(",")
    torchrun = shutil.which(arguments.torchrun)
    arguments.torchrun = torchrun and os.path.abspath(torchrun)  # each run starts in its own folder
    if arguments.cause == "terminate_torchrun" and not torchrun:
        print("skipped: torchrun not found")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modular-faults-"))
    tool, wrong, number, begin = Tool(arguments, folder), 0, 0, time.monotonic()
    print(f"seed {arguments.seed}, in {folder}", flush=True)
    numbers = iter([arguments.only] if arguments.only is not None else range(10 ** 9))
    while tool.moments.total() < arguments.count and time.monotonic() - begin < 60 * arguments.minutes:
        if (number := next(numbers, None)) is None:
            break
        strategy = strategies[number % len(strategies)]
        reference = tool.undisturbed(strategy)
        tool.say(f"case {number}, {strategy}")
        case = Case(tool, strategy, folder / f"case-{number}")
        try:
            CAUSES[arguments.cause](case, random.Random(f"{arguments.seed}/{arguments.cause}/{number}"), reference, tool)
            shutil.rmtree(case.folder)
        except Wrong as error:
            wrong += 1
            print(f"case {number}, {strategy}, kept in {case.folder}: {error}", flush=True)
    moments = ", ".join(f"{count} {moment}" for moment, count in tool.moments.most_common())
    print(f"{arguments.cause}: {tool.moments.total()} moments ({moments}), {wrong} failed cases")
    if arguments.cause == "freeze" and tool.named:
        print(f"reported after {statistics.median(tool.named):.2f} s, at most {max(tool.named):.2f} s")
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong or not tool.moments else 0


if __name__ == "__main__":
    sys.exit(main())
