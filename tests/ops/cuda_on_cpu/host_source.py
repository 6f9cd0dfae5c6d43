"""Translates the CUDA kernels to C++ that runs on CPU threads (cuda_runtime_api.h in this folder): each launch becomes a call.

    host_source.py KERNELS.cu OUT.cc
"""

import pathlib
import re
import sys

LAUNCH = re.compile(r"([^;{}()\n]*?\S)\s*<<<(.*?), (\w+), 0, stream>>>\((.*?)\);", re.DOTALL)


def main():
    source, out = map(pathlib.Path, sys.argv[1:])
    text, launches = LAUNCH.subn(r"cuda_on_cpu::launch(\2, \3, [=] { \1(\4); });", source.read_text())
    if launches == 0 or "<<<" in text:
        sys.exit(f"{source}: a launch is not of the form kernel<<<blocks, threads, 0, stream>>>(…);")
    out.write_text(f'#line 1 "{source}"\n{text}')


if __name__ == "__main__":
    main()
