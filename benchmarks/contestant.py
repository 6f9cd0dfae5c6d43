"""A program of a benchmark that works when it is told to: each line of its input is how many times, each line of its output JSON with the wall
and the processor seconds of that.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Contestant:
    """A process, or a rank of several, that runs steps when told to."""

    def __init__(self, name, command, threads, ranks=1):
        self.name, self.others = name, []
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if ranks > 1:
            environment |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}

        def start(rank, **files):
            of_rank = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
            return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment | of_rank, **files)

        self.process = start(0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.others = [start(rank, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for rank in range(1, ranks)]
        self.wall, self.processor, self.of_device = [], [], None

    def run(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"{self.name} stopped: run it by hand to see why: {' '.join(self.process.args)}")
        answer = json.loads(line)
        self.of_device = answer.get("memory")
        return answer["wall"] / steps, answer["processor"] / steps

    def peak_memory(self):
        """In MiB: on a GPU that of tensors, else the process' resident one."""
        if self.of_device is not None:
            return self.of_device / 2**20
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024

    def stop(self):
        self.process.stdin.close()
        for process in [self.process, *self.others]:
            process.wait()
