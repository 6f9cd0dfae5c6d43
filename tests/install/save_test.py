"""The line of docs/reference/modgen.md that takes a spec of a project of one's own from each save to its training, run as an author would: save, read what
it prints, save again. Every wait is for a line of its output.

    save_test.py DOCUMENT PROJECT PROGRAM CONFIG
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

DOCUMENT, PROJECT, PROGRAM, CONFIG = sys.argv[1:]
SPEC = pathlib.Path(PROJECT) / "modular/tiny.h"


def save(text):
    """As editors do: another file takes the spec's place."""
    beside = SPEC.with_suffix(".saved")
    beside.write_text(text)
    os.replace(beside, SPEC)


def main():
    if not shutil.which("entr"):
        print("skipped: there is no entr")
        return
    line = re.search(r"^ls modular/\*\.h \| entr -rs '(.*myrun.*)'$", pathlib.Path(DOCUMENT).read_text(), re.MULTILINE)[0]
    for written, here in (("myrun", PROGRAM), ("CONFIG", CONFIG), ("entr -rs", "entr -nrs")):  # -n: without a terminal
        assert written in line, line
        line = line.replace(written, here)
    print(line, flush=True)
    watch = subprocess.Popen(["sh", "-c", line], cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    too_long = threading.Timer(300, os.killpg, (watch.pid, signal.SIGKILL))
    too_long.start()

    def await_line(pattern):
        for printed in watch.stdout:
            print(printed, end="", flush=True)
            if re.search(pattern, printed):
                return printed
        sys.exit(f"it ended without a line of {pattern}")

    try:
        before = SPEC.read_text()
        model = await_line(r"^TinyForCausalLM with ")
        await_line(r"^first step ")
        wider = before.replace("hidden_size = 32;", "hidden_size = 96;")
        assert wider != before
        save(wider)
        assert await_line(r"^TinyForCausalLM with ") != model, "the model that was saved is trained"
        await_line(r"^first step ")
        save(wider.replace("TORCH_MODULE", "nonsense", 1))
        await_line(r"error: ")
        save(before)
        assert await_line(r"^TinyForCausalLM with ") == model
        await_line(r"^first step ")
    finally:
        too_long.cancel()
        watch.stdout.close()
        os.killpg(watch.pid, signal.SIGTERM)
        watch.wait()


if __name__ == "__main__":
    main()
