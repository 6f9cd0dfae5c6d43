#!/usr/bin/env python3
"""Counts how much shorter specs are than the files that modgen generates from them: lines of code, without blanks and comments.

usage: ratios.py [ROOT]

ROOT is the tree that holds modular/ and generated/, by default this one. A family is derived if its spec includes other specs.
"""

import pathlib
import re
import sys

# Families that differ from their base in a few values or one component.
THIN = {"arcee", "glm", "mistral", "mt5", "qwen2", "qwen3", "xlm_roberta"}

TOKENS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)


def lines_of_code(path):
    text = TOKENS.sub(lambda token: " " if token["comment"] else token[0], path.read_text())
    return sum(1 for line in text.splitlines() if line.strip())


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    rows = []  # name, lines of the spec, lines of the generated file, whether it is derived
    for spec in sorted((root / "modular").glob("*.h")):
        generated = root / "generated" / spec.name
        if spec.stem == "modular":
            continue
        if not generated.exists():
            sys.exit(f"{generated} is missing: run modgen {spec.stem}")
        derives = set(re.findall(r'#include "modular/(\w+)\.h"', spec.read_text())) - {"modular"}
        rows.append((spec.stem, lines_of_code(spec), lines_of_code(generated), bool(derives)))

    print(f"{'family':16} {'spec':>6} {'generated':>10} {'ratio':>6}")
    for name, spec, generated, derived in sorted(rows, key=lambda row: (not row[3], row[2] / row[1])):
        print(f"{name:16} {spec:6} {generated:10} {generated / spec:6.2f}  {'' if derived else 'root'}")
    sets = {
        "derived": [row for row in rows if row[3]],
        "thin": [row for row in rows if row[0] in THIN],
        "all": rows,
    }
    print()
    for title, chosen in sets.items():
        spec, generated = sum(row[1] for row in chosen), sum(row[2] for row in chosen)
        print(f"{title:16} {spec:6} {generated:10} {generated / max(spec, 1):6.2f}  {len(chosen)} families")


if __name__ == "__main__":
    main()
