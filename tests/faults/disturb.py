"""Ends runs, or kills their ranks, at random moments, and sees whether they continue as if nothing had happened.

usage: disturb.py --modrun build/ci/bin/modrun [--cause terminate] [--count 100] [--seed 1] [--strategies ddp,tp] [--only 17] [--torchrun FILE]

A small model with dropout trains on a mesh; one undisturbed run of each strategy says what all others have to compute. Moments are drawn
evenly from the start of the launcher, or of torchrun's ranks, to a little after the end of a run: `--count` of them for a cause.

  terminate           SIGTERM to modrun's launcher, or to it and to all of its ranks; then `train --resume=auto`, which is disturbed as well
  terminate_torchrun  SIGTERM to a rank, to all of them or to torchrun itself; then the same
  kill                SIGKILL to a rank of `modrun --max-restarts`, which starts them again by itself; then to a rank of those
  freeze              the same with SIGSTOP; the rank has to be named as frozen within two seconds

Afterwards, at the latest: losses of all steps and the last checkpoint are those of the undisturbed run, to the bit; what was trained before a
SIGTERM was saved; the run's folder, its checkpoints and the folder for temporary files hold nothing else; no process lives on; the exit status
is right; and of a killed rank its number and the cause are on the screen. A case that breaks this is kept in the folder that is printed, and
`--only` runs it again by its number, though not at exactly the same instant.
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
STRATEGIES = {  # ranks, settings
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
validation_every = 4
paths = ['data']
"""
RUN_FILES = {"config.toml", "data.manifest", "metrics.jsonl", "checkpoints", "run.lock", "run.job"}
END_WITHIN = 25.0  # seconds after a signal, on a machine that has other work; ranks that hang are ended after 30
MARK = "MODULAR_FAULTS_RUN"


class Wrong(Exception):
    """What a disturbed run did that it must not."""


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
    """A launcher that runs, and its ranks."""

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
        """The processes of ranks that run, by rank."""
        try:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except OSError:
            return {}
        found = {environment_for(child).get(b"RANK"): int(child) for child in children if is_alive(child)}
        return {int(rank): child for rank, child in found.items() if rank is not None}

    def wait(self, seconds):
        """The exit status as a shell has it. What is left then is killed."""
        try:
            status = self.process.wait(seconds)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
        deadline = time.monotonic() + 5.0
        while not hung and (living := self.living()) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = self.living()
        commands = [pathlib.Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200] for one in left if is_alive(one)]
        for one in left:
            os.kill(one, signal.SIGKILL)
        if hung:
            self.process.wait()
            raise Wrong(f"it had not ended {seconds:.0f} s after the signal")
        if left:
            raise Wrong(f"processes live on: {commands}")
        return status if status >= 0 else 128 - status

    def wait_until(self, moment):
        """Returns whether it still runs at that moment."""
        while (left := moment - time.monotonic()) > 0:
            try:
                self.process.wait(left)
                return False
            except subprocess.TimeoutExpired:
                pass
        return self.process.poll() is None


class Case:
    """One run in a folder of its own, disturbed, and continued to its end."""

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
        """What metrics.jsonl has so far; its last line may be incomplete."""
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
            raise Wrong(f"the folder for temporary files holds {left}")

    def check_done(self, whole):
        """Expects the run to be complete and as the undisturbed one."""
        if not self.is_done():
            raise Wrong("metrics.jsonl does not say that the run ended")
        if self.losses() != whole.losses():
            raise Wrong("losses are not those of the undisturbed run")
        if self.checkpoint() != whole.checkpoint() or not self.checkpoint():
            raise Wrong("the last checkpoint is not that of the undisturbed run")
        if left := {entry.name for entry in self.run.iterdir()} - RUN_FILES:
            raise Wrong(f"the run's folder holds {left}")
        listed = (self.run / "checkpoints/latest").read_text().split()
        found = {entry.name for entry in (self.run / "checkpoints").iterdir()}
        if found != {"latest", *listed} or len(listed) > 2:
            raise Wrong(f"the run's checkpoints are {sorted(found)}, of which latest lists {listed}")


def where(case):
    """What a run is doing, roughly."""
    steps = len(case.steps())
    return "before the first step" if steps == 0 else "while it trains" if steps < STEPS else "after the last step"


def terminate(case, rng, whole, tool, torchrun):
    """Disturbs a run up to three times by SIGTERM, and continues it to its end."""
    for _ in range(rng.randint(1, 3)):
        program = case.start(case.torchrun if torchrun else case.modrun())
        target = rng.choice(["a rank", "all ranks", "torchrun"] if torchrun else ["the launcher", "the launcher", "the launcher and all ranks"])
        share = rng.uniform(0.0, 0.8 if torchrun else 1.1)
        if torchrun:  # its own start, and that of modrun's launcher, do not count
            while not program.ranks() and program.process.poll() is None:
                time.sleep(0.01)
        running = program.wait_until(time.monotonic() + share * tool.seconds[case.strategy])
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
            raise Wrong(f"the exit status is {status}, and the run is {'done' if done else 'not done'}:\n{program.output()[-2000:]}")
        if len(case.steps()) != case.newest_step():
            raise Wrong(f"{len(case.steps())} steps were trained, and {case.newest_step()} saved:\n{program.output()[-2000:]}")
        # torchrun leaves folders of its own.
        case.check_left(program, lambda name: torchrun and name.startswith(("torchelastic_", "tmp", "pymp-", "torchinductor")))
        if done:
            break
    program = case.start(case.modrun())
    if (status := program.wait(120.0)) != 0:
        raise Wrong(f"the exit status of the last part is {status}:\n{program.output()[-2000:]}")
    case.check_left(program, lambda name: False)
    case.check_done(whole)


NAMED_WITHIN = 2.0  # seconds after a rank was stopped
TOLERANCE = 1.0     # of that, on a machine that has other work


def end_rank(case, rng, whole, tool, by):
    """Kills or stops ranks of a run up to three times; its launcher starts them again."""
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
        while freezes and program.output().count("has frozen") <= attempt and program.process.poll() is None and time.monotonic() < stopped + 30:
            time.sleep(0.005)
        if freezes and (taken := time.monotonic() - stopped) > NAMED_WITHIN + TOLERANCE and program.process.poll() is None:
            raise Wrong(f"rank {rank} was named {taken:.2f} s after it was stopped:\n{program.output()[-2000:]}")
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
    # The last rank may have been at its end already.
    if named not in (expected, expected[:-1]) or len(causes) != len(named):
        raise Wrong(f"ranks {expected} were ended, and {named} named, {len(causes)} of them with the cause:\n{output[-4000:]}")
    case.check_left(program, lambda name: f"/{name}/" in output)  # logs of failed ranks, which are named
    case.check_done(whole)


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
        self.seconds, self.whole = {}, {}
        self.moments = collections.Counter()
        self.named = []  # seconds from a rank's end to its name on the screen

    def undisturbed(self, strategy):
        """The run that others are compared with; how long such a run takes is known then."""
        if strategy not in self.whole:
            times = []
            for name in ("whole", "again"):
                case = Case(self, strategy, self.folder / f"{strategy}-{name}")
                begin = time.monotonic()
                program = case.start(case.modrun())
                if (status := program.wait(120.0)) != 0:
                    sys.exit(f"an undisturbed run of {strategy} ends with {status}:\n{program.output()}")
                times.append(time.monotonic() - begin)
                case.check_done(self.whole.setdefault(strategy, case))
            self.seconds[strategy] = statistics.mean(times)
            self.say(f"a run of {strategy} takes {self.seconds[strategy]:.2f} s")
        return self.whole[strategy]

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
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after that")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    strategies = arguments.strategies.split(",")
    torchrun = shutil.which(arguments.torchrun)
    arguments.torchrun = torchrun and os.path.abspath(torchrun)  # runs begin in folders of their own
    if arguments.cause == "terminate_torchrun" and not torchrun:
        print("skipped: there is no torchrun")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modular-faults-"))
    tool, wrong, number, begin = Tool(arguments, folder), 0, 0, time.monotonic()
    print(f"seed {arguments.seed}, in {folder}", flush=True)
    numbers = iter([arguments.only] if arguments.only is not None else range(10 ** 9))
    while tool.moments.total() < arguments.count and time.monotonic() - begin < 60 * arguments.minutes:
        if (number := next(numbers, None)) is None:
            break
        strategy = strategies[number % len(strategies)]
        whole = tool.undisturbed(strategy)
        tool.say(f"case {number}, {strategy}")
        case = Case(tool, strategy, folder / f"case-{number}")
        try:
            CAUSES[arguments.cause](case, random.Random(f"{arguments.seed}/{arguments.cause}/{number}"), whole, tool)
            shutil.rmtree(case.folder)
        except Wrong as what:
            wrong += 1
            print(f"case {number}, {strategy}, kept in {case.folder}: {what}", flush=True)
    moments = ", ".join(f"{count} {moment}" for moment, count in tool.moments.most_common())
    print(f"{arguments.cause}: {tool.moments.total()} moments ({moments}), {wrong} runs went wrong")
    if arguments.cause == "freeze" and tool.named:
        print(f"named after {statistics.median(tool.named):.2f} s, at most {max(tool.named):.2f} s")
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong or not tool.moments else 0


if __name__ == "__main__":
    sys.exit(main())
