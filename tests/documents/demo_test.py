"""scripts/demo, the first of the README's two commands, builds, trains, and ends with a model that continues a text. It builds with
the flags of the `ci` preset, whose objects the compiler cache has.

    demo_test.py PROJECT
"""

import pathlib
import re
import shutil
import subprocess
import sys

PROJECT = pathlib.Path(sys.argv[1]).resolve()

FLAGS = [
    "-DMODULAR_WARNINGS_AS_ERRORS=ON",
    "-DMODULAR_FAMILY_OPTIMIZATION=-O0",
    "-DMODULAR_GENERATOR_OPTIMIZATION=-O2",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG",
]

with subprocess.Popen([PROJECT / "scripts/demo", *FLAGS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
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
