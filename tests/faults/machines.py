"""Ends machines of a job at random moments, and sees whether the others end loudly, or continue once the machine is back.

usage: machines.py --modrun build/ci/bin/modrun [--where loopback|namespaces] [--launcher modrun|torchrun] [--cause kill|cut|settings|rejected]
                   [--count 100] [--seed 1] [--shapes 2x1,3x2] [--only 17] [--torchrun FILE] [--verbose]

A small model trains on two or three machines of one or two ranks each. A machine is a launcher on the loopback, or one in a network namespace
with a host name of its own. Namespaces need root and `ip`; without them, only the loopback is tried.

  kill      SIGKILL to a launcher, and under torchrun to its ranks as well
  cut       the network of a machine is cut, in namespaces alone
  settings  one machine is started with another setting, or with other data
  rejected  one machine cannot take part: its data is missing, its flags are wrong, or its --node-rank is taken

Moments are drawn evenly from the start of the first launcher, or of torchrun's ranks, to a little after the end of a run. Afterwards: no
other machine has ended with status 0 unless the run was complete; each has named the lost machine, and no other, within 5 s; no launcher or
rank lives on after 30 s. Under modrun some jobs have --max-restarts, and the lost machine is started again: losses and the last checkpoint are
then those of an undisturbed run, to the bit. A case that breaks this is kept in the folder that is printed; `--only` runs it again.
"""

import argparse
import math
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

from disturb import Case, Program, Tool, Wrong, where

SHAPES = {"2x1": (2, 1), "3x1": (3, 1), "2x2": (2, 2), "3x2": (3, 2)}  # machines, ranks of each
KINDS = [  # where, launcher, cause; in this order, again and again
    ("loopback", "modrun", "kill"), ("namespaces", "modrun", "cut"), ("loopback", "modrun", "rejected"), ("namespaces", "modrun", "kill"),
    ("loopback", "torchrun", "kill"), ("loopback", "modrun", "settings"), ("namespaces", "modrun", "rejected"), ("loopback", "modrun", "kill"),
    ("loopback", "torchrun", "rejected"), ("namespaces", "torchrun", "cut"), ("namespaces", "modrun", "settings"), ("loopback", "modrun", "kill"),
    ("loopback", "torchrun", "settings"), ("namespaces", "torchrun", "kill"),
]
NAMED_WITHIN, ENDED_WITHIN, REJECTED_WITHIN = 5.0, 30.0, 15.0  # seconds, on a machine that has other work
LOST, JOIN, REJOIN = 6, 7, 30  # seconds: --node-timeout, --join-timeout, --rejoin-timeout
OTHER_SETTINGS = ["optim.lr=2e-3", "train.steps=41", "train.seed=7", "model.config.n_layer=5", "checkpoint.every=9", "data.paths=['other']"]


class Network:
    """Three machines, each in a namespace, and a hub in a fourth."""

    def __init__(self):
        self.hub = f"modular-{os.getpid()}"
        self.names = [self.hub] + [f"{self.hub}-{node}" for node in range(3)]
        try:
            for name in self.names:
                self.ip("netns", "add", name)
                self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", self.hub, "link", "add", "hub", "type", "bridge")
            self.ip("-n", self.hub, "link", "set", "hub", "up")
            for node, name in enumerate(self.names[1:]):
                self.ip("-n", self.hub, "link", "add", f"port{node}", "type", "veth", "peer", "name", "net", "netns", name)
                self.ip("-n", self.hub, "link", "set", f"port{node}", "master", "hub", "up")
                self.ip("-n", name, "address", "add", f"{self.address(node)}/24", "dev", "net")
                self.ip("-n", name, "link", "set", "net", "up")
        except BaseException:
            self.close()
            raise

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def address(self, node):
        return f"10.77.0.{node + 1}"

    def words(self, node):
        """What starts a program on a machine, as the same process."""
        return ["ip", "netns", "exec", self.names[node + 1], "unshare", "--uts", "sh", "-c", f'hostname m{node}; exec "$@"', "sh"]

    def cut(self, node, quietly):
        self.ip("-n", self.hub, "link", "set", f"port{node}", *(("nomaster",) if quietly else ("down",)))

    def mend(self, node):
        self.ip("-n", self.hub, "link", "set", f"port{node}", "master", "hub", "up")

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def sockets_of(process):
    try:
        return sum(os.readlink(entry).startswith("socket:") for entry in pathlib.Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return 0


class Job(Case):
    """A run on several machines, in a folder of its own, which they share."""

    def __init__(self, tool, shape, folder, launcher="modrun", network=None, restarts=0):
        super().__init__(tool, "", folder)
        self.machines, self.ranks = SHAPES[shape]
        self.launcher, self.network, self.restarts = launcher, network, restarts
        self.port = free_port()
        self.nodes = {}     # the newest program of each machine
        self.started = []   # all programs
        self.pending = []   # times and machines
        self.extra = {}     # flags and settings of single machines

    def host(self, node):
        return f"m{node}" if self.network else re.escape(socket.gethostname())

    def address(self):
        return self.network.address(0) if self.network else "127.0.0.1"

    def begin(self, rng, first=None):
        """All machines are to start within half a second."""
        now = time.monotonic()
        self.pending = sorted((now + (0.0 if node == first else rng.uniform(0.0, 0.5)), node) for node in range(self.machines))
        return now

    def start_node(self, node):
        flags, settings = self.extra.get(node, ((), ()))
        words = [*self.network.words(node), "env", "GLOO_SOCKET_IFNAME=net"] if self.network else ["env", "GLOO_SOCKET_IFNAME=lo"]
        words += [self.tool.modrun] if self.launcher == "modrun" else [self.tool.torchrun]
        words += ["--nnodes", str(self.machines), "--node-rank", str(node), "--nproc-per-node", str(self.ranks), "--master-addr", self.address(),
                  "--master-port", str(self.port)]
        if self.launcher == "modrun":
            words += ["--max-restarts", str(self.restarts), "--node-timeout", str(LOST), "--join-timeout", str(JOIN), "--rejoin-timeout", str(REJOIN)]
        words += [*flags] if self.launcher == "modrun" else ["--no-python", self.tool.modrun]
        words += ["train", str(self.tool.config), "--set", "train.dir=run"]
        for setting in settings:
            words += ["--set", setting]
        self.programs += 1
        program = Program(words, self.folder, self.programs)
        self.started.append(program)
        return program

    def advance(self, moment):
        """Starts machines until that moment. Returns whether any still runs then."""
        while (now := time.monotonic()) < moment or (self.pending and self.pending[0][0] <= moment):
            if self.pending and self.pending[0][0] <= now:
                node = self.pending.pop(0)[1]
                self.nodes[node] = self.start_node(node)
            elif not self.pending and self.has_ended(self.nodes):
                return False
            elif moment == math.inf and not self.pending:
                break
            else:
                time.sleep(0.005)
        return not self.has_ended(self.nodes)

    def has_ended(self, nodes):
        return all(node in self.nodes and self.nodes[node].process.poll() is not None for node in nodes)

    def others(self, victim):
        return [node for node in range(self.machines) if node != victim]

    def kill(self, node):
        program = self.nodes[node]
        chosen = [program.process.pid] + (program.living() if self.launcher == "torchrun" else [])
        for process in chosen:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        program.wait(5.0)

    def close(self):
        for program in self.started:
            for process in program.living():
                os.kill(process, signal.SIGKILL)
            program.process.wait()

    def ranks_of(self, node):
        first, last = node * self.ranks, (node + 1) * self.ranks - 1
        return f"rank {first}" if first == last else f"ranks {first} to {last}"

    def names(self, node):
        """A pattern of the sentences that say that a machine is lost, or has not come."""
        host = self.host(node)
        if self.launcher == "torchrun":
            store = rf"|rank 0's machine \({self.address()}\), which holds the job's store,".replace(".", r"\.") if node == 0 else ""
            return rf"({host} \({self.ranks_of(node)}\){store}) (is gone|has shown no sign of life)"
        start = r"|^modrun: waiting for node 0 at |cannot reach node 0's launcher" if node == 0 else ""
        return rf"^modrun: node {node}( \({host}\))?( at \S+)? (is gone|has not answered)|waiting for nodes? ([\d, ]+, )?{node}[, ]{start}"

    def texts(self):
        return "\n".join(f"--- node {node} ---\n{program.output()[-1500:]}" for node, program in sorted(self.nodes.items()))

    def expect_named(self, victim, read, since):
        """The others name the machine in time. `read` says how much of each output came before. Those that have ended may have had no need to."""
        pattern, silent = re.compile(self.names(victim), re.MULTILINE), set(self.others(victim))
        while silent:
            ended = {node for node in silent if self.has_ended([node])}
            silent -= {node for node in silent if pattern.search(self.nodes[node].output()[read.get(node, 0):])}
            if not silent - ended:
                break
            if time.monotonic() > since + NAMED_WITHIN:
                raise Wrong(f"nodes {sorted(silent)} did not name node {victim} within {NAMED_WITHIN:.0f} s:\n{self.texts()}")
            time.sleep(0.05)
        for node in silent:
            if self.nodes[node].process.returncode != 0:
                raise Wrong(f"node {node} ended without naming node {victim}:\n{self.texts()}")
        for node in self.others(victim):
            text = self.nodes[node].output()[read.get(node, 0):]
            for other in self.others(victim):
                gone = self.names(other).replace("|has not answered", "").replace("|has shown no sign of life", "").split("|waiting")[0]
                if re.search(gone, text, re.MULTILINE):
                    raise Wrong(f"node {node} names node {other}, and node {victim} is lost:\n{self.texts()}")

    def statuses(self, nodes, deadline):
        """Waits for their ends; whether they are right is for the caller."""
        try:
            return {node: self.nodes[node].wait(max(0.1, deadline - time.monotonic())) for node in nodes}
        except Wrong as what:
            raise Wrong(f"{what}\n{self.texts()}") from None

    def expect_complete(self, whole, nodes=None):
        statuses = self.statuses(nodes or self.nodes, time.monotonic() + 120.0)
        if any(statuses.values()):
            raise Wrong(f"exit statuses are {statuses}:\n{self.texts()}")
        self.check_done(whole)


def lose(job, rng, whole, cause, victim):
    """Loses machines of a job up to twice if it may restart, else once."""
    tool, begin = job.tool, job.begin(rng)
    for _ in range(rng.randint(1, 2) if job.restarts else 1):
        if job.launcher == "torchrun":  # its own start does not count
            while job.advance(math.inf) and not all(len(program.ranks()) == job.ranks for program in job.nodes.values()):
                time.sleep(0.01)
            begin = time.monotonic()
        came_last = max([at for at, _ in job.pending], default=begin)
        moment = max([begin + rng.uniform(0.0, 1.05) * tool.seconds[job.strategy]] + [at for at, node in job.pending if node == victim])
        running = job.advance(moment)
        if not running or job.has_ended([victim]):
            tool.count("after its end")
            break
        joined = job.launcher == "modrun" or all(sockets_of(rank) > 1 for rank in job.nodes[victim].ranks().values())
        read, since, at = {node: len(program.output()) for node, program in job.nodes.items()}, time.monotonic(), where(job)
        tool.say(f"{cause} of node {victim} {at}")
        job.kill(victim) if cause == "kill" else job.network.cut(victim, rng.choice([False, True]))
        job.advance(came_last)
        if not joined and victim != 0:
            tool.count("before its ranks joined, which the others await under torchrun")
            return
        tool.count(at)
        if job.launcher == "torchrun" and job.is_done() and not any(program.ranks() for program in job.nodes.values()):
            return  # torchrun's agents may wait for the lost one at their end
        job.expect_named(victim, read, max(since, came_last))
        others = job.others(victim)
        if not job.restarts:
            nodes = others if cause == "kill" else range(job.machines)
            statuses = job.statuses(nodes, since + ENDED_WITHIN)
            if 0 in statuses.values() and not job.is_done():
                raise Wrong(f"exit statuses are {statuses}, and the run is not done:\n{job.texts()}")
            return
        if cause == "cut":
            job.advance(since + rng.uniform(0.0, 2.0 * LOST))
            job.network.mend(victim)
        if not job.has_ended(others):
            begin = time.monotonic()
            if cause == "kill":
                job.pending = [(begin + rng.uniform(0.0, 1.0), victim)]
                job.advance(math.inf)
        elif not job.is_done():
            if victim != 0 or job.run.exists():
                raise Wrong(f"the others ended rather than wait for node {victim}:\n{job.texts()}")
            job.statuses(job.nodes, time.monotonic() + ENDED_WITHIN)
            begin = job.begin(rng)  # the job had not begun: as a scheduler does
        victim = rng.randrange(job.machines)
    job.advance(math.inf)
    job.expect_complete(whole, [node for node in job.nodes if job.nodes[node].process.poll() != -signal.SIGKILL])


def other_settings(job, rng, whole, cause, victim):
    setting = rng.choice(OTHER_SETTINGS)
    key, started = setting.split("=")[0], job.begin(rng)
    job.extra[victim] = (), [setting]
    job.tool.say(f"node {victim} has {setting}")
    job.tool.count("before the first step")
    job.advance(math.inf)
    statuses = job.statuses(job.nodes, started + ENDED_WITHIN)
    ranks = range(victim * job.ranks, (victim + 1) * job.ranks) if victim else range(job.ranks, job.machines * job.ranks)
    sentence = "|".join(rf"{key}( \(file \d+\))? is .+ on rank {rank} \({job.host(rank // job.ranks)}\), and .+ on rank 0 \({job.host(0)}\)"
                        for rank in ranks)
    for node, program in job.nodes.items():
        if statuses[node] == 0 or not re.search(sentence, program.output()):
            raise Wrong(f"node {node} does not say that {key} differs; exit statuses are {statuses}:\n{job.texts()}")
    if job.steps():
        raise Wrong("it trained")


def rejected(job, rng, whole, cause, victim):
    more, host = str(job.machines + 1), job.host(victim)
    flag, start = rf"node \d+ \(\S+\) was started with {{}} \d+, and node 0 \({job.host(0)}\) with \d+", rf"(node {victim}|rank \d+) \({host}\): "
    ways = {"data": ((), ["data.paths=['nowhere']"], start + ".*nowhere"), "key": ((), ["train.stepz=3"], start + ".*train.stepz")}
    if job.launcher == "modrun":
        ways["machines"] = ["--nnodes", more], [], flag.format("--nnodes")
        ways["ranks"] = ["--nproc-per-node", more], [], f"{flag.format('--nproc-per-node')}|{start}"
        ways["taken"] = (), [], rf"--node-rank {victim} is taken by the launcher on {host} |node 0 cannot listen on port {job.port} "
    way = rng.choice(list(ways))
    flags, settings, sentence = ways[way]
    job.extra[victim] = flags, settings
    job.tool.say(f"node {victim} is rejected: {way}")
    job.tool.count("before the first step")
    started = job.begin(rng, first=victim if way == "taken" else None)
    if way == "taken":
        job.advance(started)
        second, first = job.start_node(victim), job.nodes[victim]
        job.advance(math.inf)
        statuses = sorted((program.wait(60.0), program.output()) for program in (first, second))
        if [status for status, _ in statuses] != [0, 2] or not re.search(sentence, statuses[1][1]):
            raise Wrong(f"two launchers of node {victim} end thus: {statuses}")
        return job.expect_complete(whole, job.others(victim))
    job.advance(math.inf)
    statuses = job.statuses(job.nodes, started + REJECTED_WITHIN)
    right = {2} if job.launcher == "modrun" else {1, 2}
    for node in job.others(victim):
        if statuses[node] not in right or not re.search(sentence, job.nodes[node].output()):
            raise Wrong(f"node {node} does not say why node {victim} was rejected; exit statuses are {statuses}:\n{job.texts()}")
    if statuses[victim] not in right or job.run.exists():
        raise Wrong(f"exit statuses are {statuses}, or there is a run's folder:\n{job.texts()}")


CAUSES = {"kill": lose, "cut": lose, "settings": other_settings, "rejected": rejected}


class Machines(Tool):
    def __init__(self, arguments, folder):
        super().__init__(arguments, folder)
        shutil.copytree(folder / "data", folder / "other")
        (folder / "other/3.txt").write_text("other text\n" * 300)

    def undisturbed(self, shape):
        if shape not in self.whole:
            job = Job(self, shape, self.folder / f"{shape}-whole")
            begin = job.begin(random.Random(shape))
            job.advance(math.inf)
            job.expect_complete(self.whole.setdefault(shape, job))
            self.seconds[shape] = time.monotonic() - begin
            self.say(f"a run on {shape} takes {self.seconds[shape]:.2f} s")
        return self.whole[shape]


def main():
    long = bool(os.environ.get("MODULAR_LONG_TESTS"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modrun", type=pathlib.Path, required=True)
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--where", choices=("loopback", "namespaces"))
    parser.add_argument("--launcher", choices=("modrun", "torchrun"))
    parser.add_argument("--cause", choices=CAUSES)
    parser.add_argument("--count", type=int, default=100 if long else 5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", default=",".join(SHAPES if long else ["2x1", "3x1"]))
    parser.add_argument("--only", type=int)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torchrun = shutil.which(arguments.torchrun)
    arguments.torchrun = torchrun and os.path.abspath(torchrun)  # runs begin in folders of their own
    has_namespaces = os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare")
    for missing, what in ((not torchrun, "there is no torchrun"), (not has_namespaces, "namespaces need root, ip and unshare")):
        if missing:
            print(f"skipped in part: {what}")
    kinds = [kind for kind in KINDS if arguments.where in (None, kind[0]) and arguments.launcher in (None, kind[1])
             and arguments.cause in (None, kind[2]) and (has_namespaces or kind[0] == "loopback") and (torchrun or kind[1] == "modrun")]
    if not kinds:
        print("skipped: there is nothing to try")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modular-machines-"))
    print(f"seed {arguments.seed}, in {folder}", flush=True)
    tool, wrong, network, shapes = Machines(arguments, folder), 0, None, arguments.shapes.split(",")
    numbers, begin = iter([arguments.only] if arguments.only is not None else range(10 ** 9)), time.monotonic()
    try:
        if any(kind[0] == "namespaces" for kind in kinds):
            network = Network()
        while sum(tool.moments.values()) < arguments.count and (number := next(numbers, None)) is not None:
            place, launcher, cause = kinds[number % len(kinds)]
            rng = random.Random(f"{arguments.seed}/{place}/{launcher}/{cause}/{number}")
            shape, restarts = rng.choice(shapes), rng.choice([0, 3]) if launcher == "modrun" and CAUSES[cause] is lose else 0
            victim, whole = number // len(kinds) % SHAPES[shape][0], tool.undisturbed(shape)
            name = f"case {number}, {cause} of node {victim} in {shape} under {launcher}, {place}, {restarts} restarts"
            tool.say(name)
            job = Job(tool, shape, folder / f"case-{number}", launcher, network if place == "namespaces" else None, restarts)
            job.strategy = shape
            (job.folder / "other").symlink_to(folder / "other")
            try:
                CAUSES[cause](job, rng, whole, cause, victim)
                shutil.rmtree(job.folder)
            except Wrong as what:
                wrong += 1
                print(f"{name}, kept in {job.folder}: {what}", flush=True)
            finally:
                job.close()
                if cause == "cut":
                    network.mend(victim)
    finally:
        if network:
            network.close()
    moments = ", ".join(f"{count} {moment}" for moment, count in tool.moments.most_common())
    print(f"{sum(tool.moments.values())} moments ({moments}) in {time.monotonic() - begin:.0f} s, {wrong} runs went wrong")
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong or not tool.moments else 0


if __name__ == "__main__":
    sys.exit(main())
