"""Checks that contract_page detects changes of the contract: it makes the changes below in a copy of the tree and expects these messages.

    changes.py CONTRACT_PAGE PROJECT
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

FUNCTIONS = "runtime/model/functions.h"
DECODER = "docs/examples/contract/modular/decoder.h"
END = "}  // namespace modular\n"
ADDED = """inline void without_comment() {}
/// New.
inline void without_example() {}
/// New.
inline Tensor without_shape(const Tensor& x) { return x; }
"""
# file, text, replacement, and expected messages
CHANGES = [
    (FUNCTIONS, END, ADDED + END, ["without_comment has no comment", "no example uses without_example", "without_shape gives no shape of x"]),
    (FUNCTIONS, "/// - gate, up [..., features]\n", "/// - gate, above [..., features]\n", ["describes above, which it does not take"]),
    (FUNCTIONS, "inline Tensor soft_cap(const Tensor& x, std::optional<double> cap)", "inline Tensor soft_cap(const Tensor& x, std::optional<float> cap)",
     ["is out of date with the headers"]),
    (DECODER, "rms_norm(hidden_states, weight, eps)", "hidden_states", ["no example uses rms_norm"]),
]  # fmt: skip


def main():
    page, project = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in ("modular/modular.h", "docs/reference/contract.md"):
            (copy / part).parent.mkdir(parents=True)
            shutil.copy(project / part, copy / part)
        for part in ("runtime/model", "docs/examples/contract"):
            shutil.copytree(project / part, copy / part)
        for name, text, changed, _ in CHANGES:
            before = (copy / name).read_text()
            if text not in before:
                sys.exit(f"{name} no longer contains {text!r}: update this change")
            (copy / name).write_text(before.replace(text, changed))
        run = subprocess.run([page, copy, "--check"], capture_output=True, text=True)
    wanted = [message for *_, messages in CHANGES for message in messages]
    missed = [message for message in wanted if message not in run.stderr]
    print(run.stderr, f"exited with {run.returncode}; {len(wanted)} messages, missing: {missed}", sep="\n")
    return 1 if missed or run.returncode == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
