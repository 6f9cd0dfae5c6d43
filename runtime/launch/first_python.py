"""Precedes the programs of modrun's helpers in Python. Its argument is {"package", "pythons", "tried"}: the first of these Pythons that can import the package runs what follows."""

import sys

if sys.path[:1] == [""]:  # the working directory, which Python before 3.11 puts first; `sys` is built in
    del sys.path[0]

import importlib.util
import json
import os


def first_python():
    """The Pythons that were tried before this one, or all of them. Does not return where another one is to run the program."""
    asked = json.loads(sys.argv[1])
    pythons, tried = asked["pythons"], asked["tried"]
    if importlib.util.find_spec(asked["package"]) is not None:  # which imports nothing
        return tried
    tried.append(pythons[len(tried)])
    with open("/proc/self/cmdline", "rb") as file:
        code = file.read().split(b"\0")[-3]
    while len(tried) < len(pythons):
        following = pythons[len(tried)]
        try:
            os.execv(following, [following, "-c", code, json.dumps({**asked, "tried": tried})])
        except OSError:
            tried.append(following)
    return tried


def lacks(package, install=None):
    """A message for a package that cannot be imported here."""
    several = len(TRIED) > 1
    tried = f" (tried {', '.join(TRIED)})" if several else ""
    return f"Python has no package {package}{tried}: {TRIED[0] if several else sys.executable} -m pip install {install or package}"


TRIED = first_python()
