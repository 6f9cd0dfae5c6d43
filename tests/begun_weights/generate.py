"""Writes the folders that the tests start from, in one process.

usage: generate.py OUT
"""

import shutil
import sys
from pathlib import Path

import peft_folders
import resized_folders

out = Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
peft_folders.write_all(out / "peft")
resized_folders.write_all(out / "resized")
