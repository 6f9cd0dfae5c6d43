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
VECTORS = re.compile(r"\d(rms_norm|rms_norm_backward|gated|gated_backward|rotary)I(f(?:Lb[01]E)?Li4E|13__nv_bfloat16(?:Lb[01]E)?Li8E)")
ROWS = re.compile(r"\d(cross_entropy|cross_entropy_backward)I(f|13__nv_bfloat16)E")


def main():
    nvcc, project = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        ptx = pathlib.Path(folder) / "kernels.ptx"
        subprocess.run([nvcc, "-ptx", "-O3", "-std=c++17", "-arch=sm_80", f"-I{project}", "-o", ptx, project / "runtime/ops/cuda/kernels.cu"], check=True)
        text = ptx.read_text()
    wrong, seen = [], 0
    for entry in ENTRY.finditer(text):
        kernel = VECTORS.search(entry[1]) or ROWS.search(entry[1])
        if not kernel:
            continue
        seen += 1
        if not re.search(r"\bld(\.\w+)*\.v4\.", entry[0]):
            wrong.append(f"{entry[1]} reads no 16 bytes at once")
        if kernel[1] != "cross_entropy" and not re.search(r"\bst(\.\w+)*\.v4\.", entry[0]):
            wrong.append(f"{entry[1]} writes no 16 bytes at once")
        if ".local" in entry[0]:
            wrong.append(f"{entry[1]} keeps values in local memory")
    expected = 24  # 2 types; of norms 2 sizes of rows and 2 directions, of gates 2 functions and 2 directions, of rotary 2 indices, and 2 of losses
    if seen != expected:
        wrong.append(f"{seen} kernels of vectors, not {expected}: this looks for other names")
    print(*wrong, f"{seen} kernels, {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
