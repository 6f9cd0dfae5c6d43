"""Has transformers compute, for every family with a spec, what the generated model must meet.

usage: generate.py SPECS CASES [FAMILY...]

Writes CASES/numbers/<family>-<case>/, CASES/configs/<family>-<name>/, CASES/defaults/<architecture>/ and CASES/initial/<architecture>/ (oracle.py
says what is in them) for the families named, or all those in SPECS, the folder modular/.
"""

import importlib
import pathlib
import shutil
import sys
import time

import torch
import transformers

import oracle


def families_of(specs):
    with_spec = {path.stem for path in specs.glob("*.h")} - {"modular"}
    with_cases = {path.stem for path in (pathlib.Path(__file__).parent / "cases").glob("*.py")}
    if missing := with_spec - with_cases:
        sys.exit(f"no cases for {', '.join(sorted(missing))}: write tests/parity/cases/<family>.py")
    return sorted(with_spec)


def main():
    specs, root, *chosen = sys.argv[1:]
    root = pathlib.Path(root)
    shutil.rmtree(root, ignore_errors=True)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for name in chosen or families_of(pathlib.Path(specs)):
        start = time.monotonic()
        family = importlib.import_module(f"cases.{name}").FAMILY
        for case_name, case in family.cases.items():
            oracle.write_case(root / "numbers" / f"{name}-{case_name}", family, case_name, case)
        for config_name, published in family.published.items():
            otherwise = family.otherwise.get(config_name, {})
            oracle.write_config(root / "configs" / f"{name}-{config_name}", family, published, otherwise)
        for model_class in family.models:
            oracle.write_defaults(root / "defaults" / model_class.__name__, family, model_class)
            oracle.write_initial(root / "initial" / model_class.__name__, family, model_class)
        print(f"{name:16} {len(family.cases):3} cases, {len(family.published)} configs  {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
