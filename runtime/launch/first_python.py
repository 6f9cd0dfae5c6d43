"""Prologue of modrun's Python helper programs. Its argument is {"package", "pythons", "tried"}: the first of these Pythons that can import the package runs the program."""

import sys

if sys.path[:1] == [""]:  # the working directory, which Python before 3.11 puts first; `sys` is built in
    del sys.path[0]

import importlib.util
import json
import os


def first_python():
    """Returns the Pythons that were tried before this one, or all of them. Does not return if another Python runs the program."""
    request = json.loads(sys.argv[1])
    pythons, tried = request["pythons"], request["tried"]
    if importlib.util.find_spec(request["package"]) is not None:  # does not import the package
        return tried
    tried.append(pythons[len(tried)])
    with open("/proc/self/cmdline", "rb") as file:
        code = file.read().split(b"\0")[-3]
    while len(tried) < len(pythons):
        following = pythons[len(tried)]
        try:
            os.execv(following, [following, "-c", code, json.dumps({**request, "tried": tried})])
        except OSError:
            tried.append(following)
    return tried


def lacks(package, install=None):
    """Returns an error message for a package that cannot be imported."""
    several = len(TRIED) > 1
    tried = f" (tried {', '.join(TRIED)})" if several else ""
    return f"Python has no package {package}{tried}: {TRIED[0] if several else sys.executable} -m pip install {install or package}"


TRIED = first_python()
