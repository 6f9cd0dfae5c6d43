"""Checks that names in unnamed namespaces are unique within each library, so that it can be built with CMAKE_UNITY_BUILD, as
scripts/demo does. Also checks that no file imports a name (`using a::Name`) that another file defines, or imports from a
different scope.

    unnamed_names.py PROJECT
"""

import collections
import pathlib
import re
import sys

# Compiled file by file (UNITY_BUILD OFF in their CMakeLists.txt): table rows that intentionally share names.
FILE_BY_FILE = {"runtime/optim", "runtime/ops", "runtime/ops/cpu", "generator/weave/rules"}

UNNAMED = re.compile(r"\nnamespace \{\n(.*?)\n\}  // namespace\n", re.S)
DEFINITION = re.compile(
    r"(?:class|struct|enum class) (\w+)|(?:\w[\w:<>,&* ]*?[ *&])(k[A-Z]\w*)(?:\[\w*\])?\s*[={(]|(?:\w|\[\[)[\w:<>,&*\[\] ]*?[ *&](\w+)\(([^)]*)"
)
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ([^;]+);", re.M)
USED = re.compile(r"^using ((?:[\w:]+::\w+(?:,\s*)?)+);", re.M)


def used(text):
    """Yields each name that a file imports, and its origin."""
    yield from ALIAS.findall(text)
    for paths in USED.findall(text):
        for path in re.split(r",\s*", paths):
            yield path.rpartition("::")[2], path


def names(text):
    for space in UNNAMED.findall(text):
        for line in space.split("\n"):
            if not line or not (line[0].isalpha() or line[0] == "[") or line.startswith(("using ", "namespace ", "template ")):
                continue
            if found := DEFINITION.match(line):
                kind, constant, function, parameters = found.groups()
                if kind or constant:
                    yield kind or constant
                    continue
                # Overloads do not clash unless a call that omits default arguments matches both.
                declared = [parameter.strip() for parameter in (parameters or "").split(",")]
                types = [re.sub(r"\s*\w+$", "", parameter.partition("=")[0].strip()) for parameter in declared]
                least = next((i for i, parameter in enumerate(declared) if "=" in parameter), len(declared))
                for count in range(least, len(declared) + 1):
                    yield f"{function}({', '.join(types[:count])})"


def main(project):
    definitions = collections.defaultdict(set)
    sources = collections.defaultdict(lambda: collections.defaultdict(set))
    for root in ("runtime", "generator", "checks"):
        for path in (project / root).rglob("*.cc"):
            folder = str(path.parent.relative_to(project))
            if folder in FILE_BY_FILE:
                continue
            library = "generator" if folder.startswith("generator") and folder != "generator/tool" else folder
            file, text = str(path.relative_to(project)), path.read_text()
            for name in names(text):
                definitions[library, name].add(file)
                sources[library, name.partition("(")[0]]["a definition"].add(file)
            for name, source in used(text):
                sources[library, name][source].add(file)
    clashes = {key: paths for key, paths in definitions.items() if len(paths) > 1}
    for (_, name), paths in sorted(clashes.items()):
        print(f"{name} is in the unnamed namespaces of {' and '.join(sorted(paths))}: rename one, or share the definition")
    mixed = {key: found for key, found in sources.items() if len(found) > 1}
    for (_, name), found in sorted(mixed.items()):
        origins = " and ".join(f"{source} in {', '.join(sorted(files))}" for source, files in sorted(found.items()))
        print(f"{name} is {origins}: rename one")
    return 1 if clashes or mixed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
