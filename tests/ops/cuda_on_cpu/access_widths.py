"""The CUDA kernels move 16 bytes at a time: each kernel that nvcc makes for vectors reads so, and writes so where it writes rows.

    access_widths.py NVCC PROJECT
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"\.entry (\w+)\(.*?^}", re.DOTALL | re.MULTILINE)
# By their mangled names. A kernel for rows of any length (width 1) has none, and neither have those that walk columns.
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
            wrong.append(f"{entry[1]} reads no 16 bytes at once")
        if kernel[1] != "cross_entropy" and not re.search(r"\bst(\.\w+)*\.v4\.", entry[0]):
            wrong.append(f"{entry[1]} writes no 16 bytes at once")
        if re.search(r"\bld\.global(\.\w+)*\.[bsu]8\b", entry[0]):
            wrong.append(f"{entry[1]} reads single bytes")
        if ".local" in entry[0]:
            wrong.append(f"{entry[1]} keeps values in local memory")
    # 2 types: of gates 2 functions and 2 directions, of rotary 2 indices, and 2 of losses. Norms are LayerNorm and, of each type that the
    # weight may have, RMSNorm: 5 in all, of 2 directions, each for rows of a warp and a block in 4 sizes, and for longer ones.
    expected = 2 * (2 * 2 + 2 + 2) + 5 * 2 * (2 * 4 + 1)
    if seen != expected:
        wrong.append(f"{seen} kernels of vectors, not {expected}: this looks for other names")
    print(*wrong, f"{seen} kernels, {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
