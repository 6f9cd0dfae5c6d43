"""Takes down machines of a job at random times, and checks that the others fail with a clear error, or continue once the machine is back.

usage: machines.py --modrun build/ci/bin/modrun [--where namespaces] [--launcher torchrun] [--cause kill] [--count 100] [--seed 1] [--only 17]

A small model trains on two or three machines. Each is a launcher on the loopback interface, or in a network namespace with its own host name.

  kill      SIGKILL to a launcher, and with torchrun also to its ranks
  cut       the network of a machine is cut, only in namespaces
  settings  one machine starts with a different config or different data
  rejected  one machine cannot take part: its data is missing, its flags are wrong, or its --node-rank is taken

Fault times are uniformly distributed from the start of the first launcher, or of torchrun's ranks, to shortly after the end of a run. Then no
other machine exits with status 0 unless the run is complete; each names the lost machine within 5 s, and no other; no launcher or rank is
left after 30 s. Half of modrun's jobs use --max-restarts, and the lost machine comes back: losses and the last checkpoint then equal those of
an undisturbed run bit by bit. A failing case is kept in the folder that is printed; `--only` repeats it.
"""

import argparse
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from disturb import MARK, Case, Program, Tool, Wrong, environment_for, where

SHAPES = {"2x1": (2, 1), "3x1": (3, 1), "2x2": (2, 2), "3x2": (3, 2)}  # machines, ranks per machine
KINDS = [kind.split("/") for kind in """
    loopback/modrun/kill namespaces/modrun/cut loopback/modrun/rejected loopback/torchrun/kill namespaces/modrun/kill namespaces/modrun/settings
    loopback/modrun/kill namespaces/modrun/rejected loopback/torchrun/rejected namespaces/torchrun/cut loopback/modrun/settings
    loopback/modrun/kill loopback/torchrun/settings namespaces/torchrun/kill""".split()]  # cycled in this order
UP, DOWN = "master hub up", ["down", "nomaster"]  # states of a machine's port at the hub
LOST, JOIN, REJOIN = 5, 7, 30  # seconds: --node-timeout, --join-timeout, --rejoin-timeout
NAMED_WITHIN, ENDED_WITHIN, REJECTED_WITHIN = 5.0, 30.0, 15.0  # seconds, on a loaded machine
OTHER_SETTINGS = ["optim.lr=2e-3", "train.steps=41", "train.seed=7", "model.config.n_layer=5", "checkpoint.every=9", "data.paths=['other']"]


class Network:
    """Three machines, each in a namespace, and a hub in a fourth."""

    def __init__(self):
        self.hub = f"modular-{os.getpid()}"
        self.port = f"-n {self.hub} link set port"
        self.names = [f"{self.hub}-{node}" for node in range(3)]

    def open(self):
        for name in [self.hub, *self.names]:
            self.ip(f"netns add {name}")
            self.ip(f"-n {name} link set lo up")
        self.ip(f"-n {self.hub} link add hub up type bridge")
        for node, name in enumerate(self.names):
            self.ip(f"-n {self.hub} link add port{node} type veth peer name net netns {name}")
            self.ip(f"{self.port}{node} {UP}")
            self.ip(f"-n {name} address add 10.77.0.{node + 1}/24 dev net")
            self.ip(f"-n {name} link set net up")

    def ip(self, words):
        subprocess.run(["ip", *words.split()], check=True)

    def words(self, node):
        return ["ip", "netns", "exec", self.names[node], "unshare", "--uts", "sh", "-c", f'hostname m{node}; exec "$@"', "sh"]

    def close(self):
        for name in filter(lambda name: os.path.exists(f"/run/netns/{name}"), [*self.names, self.hub]):
            self.ip(f"netns delete {name}")


def kill_marked(mark):
    """Kills the programs of this test whose mark ends with `mark`, and all of their descendants."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and environment_for(entry.name).get(MARK.encode(), b"").endswith(mark.encode()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


class Job(Case):
    """A run on several machines that share its folder."""

    def __init__(self, tool, shape, folder, launcher="modrun", network=None, restarts=0):
        super().__init__(tool, shape, folder)
        (folder / "other").symlink_to(tool.folder / "other")
        self.machines, self.ranks = SHAPES[shape]
        self.launcher, self.network, self.restarts = launcher, network, restarts
        self.hosts = [f"m{node}" if network else re.escape(socket.gethostname()) for node in range(3)]
        self.nodes, self.extra = {}, {}  # by machine: the newest program; flags and config overrides
        self.pending, self.lost = [], set()  # (time, machine) of scheduled starts; lost machines
        with socket.create_server(("", 0)) as free:
            self.port = free.getsockname()[1]

    def begin(self, rng):
        """Schedules the start of all machines within half a second."""
        self.pending = sorted((time.monotonic() + rng.uniform(0.0, 0.5), node) for node in range(self.machines))
        return time.monotonic()

    def start_node(self, node):
        flags, settings = self.extra.get(node, ((), ()))
        words = self.network.words(node) if self.network else []
        words += ["env", f"GLOO_SOCKET_IFNAME={'net' if self.network else 'lo'}", getattr(self.tool, self.launcher)]
        words += f"--nnodes {self.machines} --node-rank {node} --nproc-per-node {self.ranks} --master-port {self.port}".split()
        words += ["--master-addr", "10.77.0.1" if self.network else "127.0.0.1"]
        if self.launcher == "modrun":
            words += f"--max-restarts {self.restarts} --node-timeout {LOST} --join-timeout {JOIN} --rejoin-timeout {REJOIN}".split()
        words += flags if self.launcher == "modrun" else ["--no-python", self.tool.modrun]
        words += ["train", str(self.tool.config), "--set", "train.dir=run"]
        words += [word for setting in settings for word in ("--set", setting)]
        self.programs += 1
        return Program(words, self.folder, self.programs)

    def advance(self, moment=None):
        """Starts machines until `moment`, or until all have started."""
        while self.pending or (moment and not self.has_ended(self.nodes)):
            now = time.monotonic()
            if self.pending and self.pending[0][0] <= min(now, moment or now):
                node = self.pending.pop(0)[1]
                self.nodes[node] = self.start_node(node)
            elif moment and now >= moment:
                break
            time.sleep(0.005)

    def has_ended(self, nodes):
        return all(self.nodes[node].process.poll() is not None for node in nodes)

    def others(self, victim):
        return [node for node in range(self.machines) if node != victim]

    def kill(self, node):
        self.nodes[node].process.kill()
        if self.launcher == "torchrun":
            kill_marked(self.nodes[node].mark)
        self.nodes[node].process.wait()

    def names(self, node, signs):
        """Returns a pattern that matches reports about a lost machine."""
        first, last = node * self.ranks, (node + 1) * self.ranks - 1
        if self.launcher == "modrun":
            return rf"^modrun: node {node}( \({self.hosts[node]}\))?( at \S+)? ({signs})"
        store = "|rank 0's machine \\(\\S+\\), which holds the job's store," if node == 0 else ""
        return rf"({self.hosts[node]} \(rank{f' {first}' if first == last else f's {first} to {last}'}\){store}) ({signs})"

    def expect_named(self, victim, read):
        """Checks that the others name the machine in time, unless their ranks are done. `read` is the offset in each output after earlier losses."""
        lost = self.names(victim, "is gone|has not answered|has shown no sign of life") + rf"|^modrun: waiting for nodes? ([\d, ]+, )?{victim}\b"
        pattern, silent = re.compile(lost + "|^modrun: cannot reach node 0's launcher" * (victim == 0), re.MULTILINE), self.others(victim)
        is_over, deadline = False, time.monotonic() + NAMED_WITHIN
        while silent and not is_over:
            is_over = self.has_ended(silent) or time.monotonic() > deadline
            silent = [node for node in silent if not pattern.search(self.nodes[node].output()[read.get(node, 0):])]
            time.sleep(0.05)
        if silent and not (self.is_done() and not any(self.nodes[node].ranks() for node in silent)):
            raise Wrong(f"nodes {silent} do not name node {victim} within {NAMED_WITHIN:.0f} s or before they end")

    def statuses(self, nodes, deadline):
        """Waits until `nodes` have ended. Checks that no process is left and that no other machine was reported as gone."""
        statuses = {node: self.nodes[node].wait(max(0.1, deadline - time.monotonic())) for node in nodes}
        for node in set(self.nodes) - self.lost:
            for other in set(self.nodes) - self.lost:
                if re.search(self.names(other, "is gone"), self.nodes[node].output(), re.MULTILINE):
                    raise Wrong(f"node {node} names node {other}, and only {self.lost or 'none'} was lost")
        return statuses

    def expect_complete(self, reference, nodes):
        if any((statuses := self.statuses(nodes, time.monotonic() + 120.0)).values()):
            raise Wrong(f"exit statuses are {statuses}")
        self.check_done(reference)


def lose(job, rng, reference, cause, victim):
    """Takes down a machine of a job, and possibly another one after a restart."""
    begin, is_torchrun = job.begin(rng), job.launcher == "torchrun"
    for _ in range(rng.randint(1, 2) if job.restarts and cause == "kill" else 1):
        if is_torchrun:  # exclude the startup of torchrun
            job.advance()
            while not job.has_ended(job.nodes) and not all(len(program.ranks()) == job.ranks for program in job.nodes.values()):
                time.sleep(0.01)
            begin = time.monotonic()
        starts = max((at for at, node in job.pending if node == victim), default=begin)
        job.advance(max(starts, begin + rng.uniform(0.0, 1.05) * job.tool.seconds[job.strategy]))
        if job.has_ended([victim]):
            job.tool.count("after its end")
            break
        files = [pathlib.Path(f"/proc/{rank}/fd").glob("*") for program in job.nodes.values() for rank in program.ranks().values()]
        joined = all(sum("/socket:" in os.path.realpath(file) for file in rank_files) > 1 for rank_files in files)  # two connections to the store
        read = {node: max(0, program.output().rfind("starting the ranks again")) for node, program in job.nodes.items()}
        since, at, began = time.monotonic(), where(job), any(program.ranks() for program in job.nodes.values())
        job.tool.say(f"{cause} of node {victim} {at}")
        job.lost.add(victim)
        job.kill(victim) if cause == "kill" else job.network.ip(f"{job.network.port}{victim} {rng.choice(DOWN)}")
        job.advance()
        if is_torchrun and not joined:
            return job.tool.count("before all ranks have joined, when the others keep waiting")
        job.tool.count(at)
        job.expect_named(victim, read)
        if not job.restarts:
            agents_wait = is_torchrun and job.is_done()  # for each other, at exit
            if not agents_wait and 0 in job.statuses(job.nodes, since + ENDED_WITHIN).values() and not job.is_done():
                raise Wrong("a machine exited with status 0, but the run is incomplete")
            return None
        if cause == "cut":
            job.advance(since + (rng.uniform(0.0, 2.0 * LOST) if began else 2.0 * LOST))
            job.network.ip(f"{job.network.port}{victim} {UP}")
        begin = time.monotonic()
        waits = job.is_done() or (cause == "cut" and began) or any("(--rejoin-timeout)" in job.nodes[node].output() for node in job.others(0))
        if victim == 0 and not waits:  # no rank had started, and only node 0 knew of the job: simulate a restart by a scheduler
            job.kill(victim)
            job.statuses(job.nodes, begin + ENDED_WITHIN)
            begin = job.begin(rng)
        elif job.has_ended([victim]) and not job.has_ended(job.others(victim)):
            job.pending = [(begin + rng.uniform(0.0, 1.0), victim)]
        job.advance()
        victim = rng.randrange(job.machines)
    return job.expect_complete(reference, [node for node in job.nodes if job.nodes[node].process.poll() != -signal.SIGKILL])


def differ(job, rng, reference, cause, victim):
    """Starts one machine differently: no machine trains, and all report why; or only the second launcher of a --node-rank ends."""
    host, first, more = job.hosts[victim], job.hosts[0], str(job.machines + 1)
    flag, own = rf"node \d+ \(\S+\) was started with {{}} \d+, and node 0 \({first}\) with \d+", rf"(node {victim}|rank \d+) \({host}\): .*"
    differing = range(victim * job.ranks, (victim + 1) * job.ranks) if victim else range(job.ranks, job.machines * job.ranks)
    ranks = "|".join(rf"{rank} \({job.hosts[rank // job.ranks]}\)" for rank in differing)
    ways = {"missing": ([], ["data.paths=['nowhere']"], own + "nowhere"), "unknown": ([], ["train.stepz=3"], own + "train.stepz")}
    if job.launcher == "modrun":
        ways["machines"] = ["--nnodes", more], [], flag.format("--nnodes")
        ways["ranks"] = ["--nproc-per-node", more], [], f"{flag.format('--nproc-per-node')}|{own}"
        ways["taken"] = [], [], rf"--node-rank {victim} is taken by the launcher on {host} |node 0 cannot listen on port {job.port} "
    if cause == "settings":
        ways = {setting: ([], [setting], rf"{setting.split('=')[0]}( \(file \d+\))? is .+ on rank ({ranks}), and .+ on rank 0 \({first}\)")
                for setting in OTHER_SETTINGS}
    way = rng.choice(list(ways))
    flags, settings, pattern = ways[way]
    job.extra[victim], began = (flags, settings), job.begin(rng)
    job.tool.say(f"the difference: {way}")
    job.tool.count("before the first step")
    second = job.start_node(victim) if way == "taken" else None
    job.advance()
    if second:
        ends = sorted((program.wait(60.0), program.output()) for program in (second, job.nodes[victim]))
        if [status for status, _ in ends] != [0, 2] or not re.search(pattern, ends[1][1]):
            raise Wrong(f"one of two launchers of node {victim} did not end as expected: {ends}")
        return job.expect_complete(reference, job.others(victim))
    statuses = job.statuses(job.nodes, began + REJECTED_WITHIN)
    right = {2} if job.launcher == "modrun" and cause == "rejected" else {1, 2}
    silent = [node for node in job.nodes if not re.search(pattern, job.nodes[node].output())]
    if set(silent) - ({victim} if cause == "rejected" else set()) or set(statuses.values()) - right or job.steps():
        raise Wrong(f"nodes {silent} do not report the problem; exit statuses are {statuses}; {len(job.steps())} steps were trained")
    return None


CAUSES = {"kill": lose, "cut": lose, "settings": differ, "rejected": differ}


def undisturbed(tool, shape):
    """Returns the reference run of a shape. Also measures its duration."""
    if shape not in tool.reference:
        job, begin = Job(tool, shape, tool.folder / f"{shape}-reference"), time.monotonic()
        job.begin(random.Random(shape))
        job.advance()
        job.expect_complete(tool.reference.setdefault(shape, job), job.nodes)
        tool.seconds[shape] = time.monotonic() - begin
        tool.say(f"a run on {shape} takes {tool.seconds[shape]:.2f} s")
    return tool.reference[shape]


def main():
    is_long = os.environ.get("MODULAR_LONG_TESTS")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modrun", type=pathlib.Path, required=True)
    parser.add_argument("--torchrun", default="torchrun")
    for flag, choices in ("--where", ["loopback", "namespaces"]), ("--launcher", ["modrun", "torchrun"]), ("--cause", CAUSES):
        parser.add_argument(flag, choices=choices)
    for flag, value in ("--count", 100 if is_long else 5), ("--seed", 1), ("--only", None):
        parser.add_argument(flag, type=int, default=value)
    parser.add_argument("--shapes", default=",".join(SHAPES) if is_long else "2x1,3x1")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torchrun = shutil.which(arguments.torchrun)
    arguments.torchrun = torchrun and os.path.abspath(torchrun)  # each run starts in its own folder
    has_namespaces = os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare")
    kinds = [kind for kind in KINDS if {arguments.where, arguments.launcher, arguments.cause} - {None} <= set(kind)]
    for available, word, reason in (torchrun, "torchrun", "torchrun not found"), (has_namespaces, "namespaces", "namespaces need root, ip and unshare"):
        if not available and any(word in kind for kind in kinds):
            print(f"skipped: {reason}")
            kinds = [kind for kind in kinds if word not in kind]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modular-machines-"))
    print(f"seed {arguments.seed}, in {folder}", flush=True)
    tool, network, wrong, begin = Tool(arguments, folder), Network(), 0, time.monotonic()
    shutil.copytree(folder / "data", folder / "other")
    (folder / "other/3.txt").write_text("other text\n" * 300)
    numbers = iter([arguments.only] if arguments.only is not None else range(10 ** 9 if kinds else 0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    try:
        if any("namespaces" in kind for kind in kinds):
            network.open()
        while sum(tool.moments.values()) < arguments.count and (number := next(numbers, None)) is not None:
            network_kind, launcher, cause = kinds[number % len(kinds)]
            rng = random.Random(f"{arguments.seed}/{network_kind}/{launcher}/{cause}/{number}")
            shape, restarts = rng.choice(arguments.shapes.split(",")), rng.choice([0, 3]) * (launcher == "modrun" and CAUSES[cause] is lose)
            victim, reference = (number + number // len(kinds)) % SHAPES[shape][0], undisturbed(tool, shape)
            job = Job(tool, shape, folder / f"case-{number}", launcher, network if network_kind == "namespaces" else None, restarts)
            name = f"case {number}, {network_kind}, {launcher}, {restarts} restarts, {shape}, {cause} of node {victim}"
            tool.say(name)
            try:
                CAUSES[cause](job, rng, reference, cause, victim)
                shutil.rmtree(job.folder)
            except Wrong as error:
                wrong += 1
                texts = [f"--- node {node} ---\n{program.output()[-1500:]}" for node, program in sorted(job.nodes.items())]
                print(f"{name}, kept in {job.folder}: {error}", *texts, sep="\n", flush=True)
            kill_marked(f"-{os.getpid()}")
            for node in range(3 if cause == "cut" else 0):
                network.ip(f"{network.port}{node} {UP}")
    finally:
        kill_marked(f"-{os.getpid()}")
        network.close()
    moments = ", ".join(f"{count} {moment}" for moment, count in tool.moments.most_common())
    print(f"{sum(tool.moments.values())} moments ({moments}) in {time.monotonic() - begin:.0f} s, {wrong} failed cases")
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong or (kinds and not tool.moments) else 0


if __name__ == "__main__":
    sys.exit(main())
