"""Drives a benchmark program that runs steps on request: it reads the number of steps from each line of its input, and answers each with
a line of JSON that has the wall and the CPU seconds of those steps.
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
    """A process, or several ranks, that runs steps on request."""

    def __init__(self, name, command, threads, ranks=1):
        self.name, self.others = name, []
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if ranks > 1:
            environment |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}

        def start(rank, **files):
            rank_variables = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
            return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment | rank_variables, **files)

        self.process = start(0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.others = [start(rank, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for rank in range(1, ranks)]
        self.wall, self.processor, self.device_memory = [], [], None

    def run(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"{self.name} stopped: run it by hand to see the error: {' '.join(self.process.args)}")
        answer = json.loads(line)
        self.device_memory = answer.get("memory")
        return answer["wall"] / steps, answer["processor"] / steps

    def peak_memory(self):
        """Returns the peak in MiB: that of tensors on a GPU, of the resident set on CPU."""
        if self.device_memory is not None:
            return self.device_memory / 2**20
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024

    def stop(self):
        self.process.stdin.close()
        for process in [self.process, *self.others]:
            process.wait()
