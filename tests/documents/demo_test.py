"""scripts/demo, the first of the README's two commands, trains, and ends with a model that continues a text. MODULAR_LONG_TESTS=1 has it
build with the settings that are its own; otherwise it takes the programs of BUILD.

    demo_test.py PROJECT BUILD
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

PROJECT = pathlib.Path(sys.argv[1]).resolve()

built = [] if os.environ.get("MODULAR_LONG_TESTS") == "1" else ["--built", sys.argv[2]]
with subprocess.Popen([PROJECT / "scripts/demo", *built], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
    lines = []
    for line in demo.stdout:  # as it comes, so that a test that hangs has said where
        print(line, end="", flush=True)
        lines.append(line)
output = "".join(lines)
if folder := re.search(r"the run's files go to (\S+)", output):
    shutil.rmtree(PROJECT / folder[1], ignore_errors=True)
assert demo.returncode == 0, f"scripts/demo ended with {demo.returncode}"
loss = re.search(r"^last validation loss ([\d.]+) nats/token", output, re.MULTILINE)
assert loss and float(loss[1]) < 2.2, "a byte of the held-out headers costs more than in the README's example, by far"
assert re.search(r'^the model continues "#include <":\n.+', output, re.MULTILINE), "no text of the model's"
