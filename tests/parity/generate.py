"""Has transformers compute, for every family with a spec, the numbers that the generated model must match.

usage: generate.py --cases FOLDER NUMBERS FAMILY...

Reads FOLDER/<family>.py. Writes NUMBERS/numbers/<family>-<case>/, NUMBERS/configs/<family>-<name>/, NUMBERS/defaults/<architecture>/ and
NUMBERS/initial/<architecture>/ (oracle.py describes their contents).
"""

import argparse
import pathlib
import shutil
import sys
import time

try:
    import torch
    import transformers

    import oracle
except ModuleNotFoundError as error:
    sys.exit(
        f"parity tests need a Python with torch, transformers and safetensors, and {sys.executable} has no {error.name}: "
        "install that, or name another one by -DMODULAR_PYTHON"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("numbers", type=pathlib.Path)
    parser.add_argument("families", nargs="+")
    arguments = parser.parse_args()
    root = arguments.numbers
    shutil.rmtree(root, ignore_errors=True)
    (root / "configs").mkdir(parents=True)  # a family may have no published configs
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for name in arguments.families:
        start = time.monotonic()
        family = oracle.load_family(name, arguments.cases)
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
