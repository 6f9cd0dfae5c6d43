"""Writes images of several kinds, and Pillow's pixels of them.

usage: images_oracle.py FOLDER

FOLDER/<class>/<name> are JPEG and PNG files; FOLDER/expected.safetensors has for each <class>/<name> its pixels [channels, height, width] (<class>/<name>/rgb and /luma), and
/resized in 32 x 24. images/broken.* are cut off.
"""

import pathlib
import sys

import numpy
from PIL import Image
from safetensors.numpy import save_file

folder = pathlib.Path(sys.argv[1])
random = numpy.random.default_rng(1)
smooth = random.random((9, 7, 3)) * 255
picture = Image.fromarray(smooth.astype(numpy.uint8)).resize((90, 70), Image.BICUBIC)
transparent = picture.convert("RGBA")
transparent.putalpha(Image.fromarray((random.random((70, 90)) * 255).astype(numpy.uint8)))
files = {
    "cat/a.jpg": picture,
    "cat/b.JPEG": picture.convert("L"),
    "dog/c.png": picture,
    "dog/d.png": picture.convert("P", palette=Image.ADAPTIVE),
    "dog/e.png": transparent,
    "owl/f.png": picture.convert("L"),
}
expected = {}
for name, image in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **({"quality": 90} if path.suffix.lower() != ".png" else {}))
    with Image.open(path) as read:
        rgb = read.convert("RGB")
        luma = read.convert("L") if read.mode != "P" else rgb.convert("L")
        pixels = {"rgb": rgb, "luma": luma, "resized": rgb.resize((24, 32), Image.BILINEAR)}
        for kind, one in pixels.items():
            array = numpy.asarray(one)
            expected[f"{name}/{kind}"] = numpy.ascontiguousarray(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))
save_file(expected, folder / "expected.safetensors")
broken = folder / "broken"
broken.mkdir(exist_ok=True)
for name in ("cat/a.jpg", "dog/c.png"):
    data = (folder / name).read_bytes()
    (broken / pathlib.Path(name).name).write_bytes(data[: len(data) // 2])
(broken / "text.png").write_text("no image")
