"""The CUDA kernels access 16 bytes at a time: each vectorized kernel reads so, and each that writes rows writes so.

    access_widths.py NVCC PROJECT
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"\.entry (\w+)\(.*?^}", re.DOTALL | re.MULTILINE)
# By mangled names. Kernels for rows of any length (width 1) and kernels that iterate over columns are not vectorized.
TYPE = r"(?:f|13__nv_bfloat16)"
VECTORS = re.compile(r"\d(gated|gated_backward|rotary)I(f(?:Lb[01]E)?Li4E|13__nv_bfloat16(?:Lb[01]E)?Li8E)")
NORMS = re.compile(rf"\d(norm|norm_backward)I{TYPE}\w*?Lb[01]ELi(?:32|256)ELi[1-4]E")
NORMS_IN_LOOPS = re.compile(r"\d(norm_in_loops|norm_backward_in_loops)I(?:f\w*?Lb[01]ELi4E|13__nv_bfloat16\w*?Lb[01]ELi8E)")
ROWS = re.compile(r"\d(cross_entropy|cross_entropy_backward)I(f|13__nv_bfloat16)E")
KINDS = (VECTORS, NORMS, NORMS_IN_LOOPS, ROWS)


def main():
    nvcc, project = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        text = ""
        for source in sorted((project / "runtime/ops/cuda").glob("*.cu")):
            ptx = pathlib.Path(folder) / f"{source.stem}.ptx"
            subprocess.run([nvcc, "-ptx", "-O3", "-std=c++17", "-arch=sm_80", f"-I{project}", "-o", ptx, source], check=True)
            text += ptx.read_text()
    wrong, seen = [], 0
    for entry in ENTRY.finditer(text):
        kernel = next(filter(None, (kind.search(entry[1]) for kind in KINDS)), None)
        if not kernel:
            continue
        seen += 1
        if not re.search(r"\bld(\.\w+)*\.v4\.", entry[0]):
            wrong.append(f"{entry[1]} never reads 16 bytes at once")
        if kernel[1] != "cross_entropy" and not re.search(r"\bst(\.\w+)*\.v4\.", entry[0]):
            wrong.append(f"{entry[1]} never writes 16 bytes at once")
        if re.search(r"\bld\.global(\.\w+)*\.[bsu]8\b", entry[0]):
            wrong.append(f"{entry[1]} reads single bytes")
        if ".local" in entry[0]:
            wrong.append(f"{entry[1]} keeps values in local memory")
    # 2 types: gates in 2 functions and 2 directions, rotary with 2 index types, and 2 losses. Norms are LayerNorm and, for each type of
    # weight, RMSNorm: 5 in all, in 2 directions, each for rows of a warp and a block in 4 sizes, and for longer rows.
    expected = 2 * (2 * 2 + 2 + 2) + 5 * 2 * (2 * 4 + 1)
    if seen != expected:
        wrong.append(f"{seen} vectorized kernels, not {expected}: the expected kernel names have changed")
    print(*wrong, f"{seen} kernels, {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
