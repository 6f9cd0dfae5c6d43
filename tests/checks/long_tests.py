"""tests/long_tests.txt names tests that there are: of one that was renamed, the time and the label would be lost without a word.

    long_tests.py PROJECT
"""

import pathlib
import re
import sys


def main(project):
    defined = set()
    for path in (project / "tests").rglob("*_test.cc"):
        defined |= set(re.findall(r"\b(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", path.read_text()))
    missing = []
    for line in (project / "tests/long_tests.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        # With the prefix and the parameter of a parameterized test: Prefix/Suite.Test/0.
        suite, _, test = line.split()[0].partition(".")
        if not any((part, test.split("/")[0]) in defined for part in suite.split("/")):
            missing.append(line.split()[0])
    for name in missing:
        print(f"tests/long_tests.txt: there is no test {name}: give the name that it has now, or remove the line")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
