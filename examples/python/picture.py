"""A picture before and after a device made a kaleidoscope of it, both saved as PNG.

    python picture.py [PICTURE.npy|.npz] [DEVICE]

Without a picture (rows and columns of uint8) it takes the one that `scripts/demo` fetched, or draws one.
The device copies four views of the picture into one tensor: as it is, and mirrored. Writes `before.png`
and `after.png` into the current folder. Needs no other package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import crossdock as xd
import png

CACHE = Path(__file__).resolve().parents[2] / ".cache/wheels"


def a_picture() -> xd.Tensor:
    """A real picture if there is any, else one of rings."""
    for fetched in sorted(CACHE.glob("pywavelets-*/pywt/data/ascent.npz")):
        return only(xd.load(fetched))
    rings = [((x * x + y * y) // 64) & 255 for y in range(256) for x in range(256)]
    return xd.asarray(bytearray(rings)).reshape((256, 256))


def only(loaded: xd.Tensor | Mapping[str, xd.Tensor]) -> xd.Tensor:
    """The array of a file, and the first one of an archive."""
    return loaded if isinstance(loaded, xd.Tensor) else next(iter(loaded.values()))


def kaleidoscope(picture: xd.Tensor) -> xd.Tensor:
    """The picture and its mirror images, on the picture's device."""
    rows, columns = picture.shape
    whole = xd.empty((2 * rows, 2 * columns), dtype=picture.dtype, device=picture.device)
    whole[:rows, :columns] = picture
    whole[:rows, columns:] = picture[:, ::-1]
    whole[rows:, :columns] = picture[::-1]
    whole[rows:, columns:] = picture[::-1, ::-1]
    return whole


def main() -> None:
    """Takes the picture there, lets the device work, and brings it back."""
    names = [str(device) for device in xd.devices()]
    opencl = next((name for name in names if name.startswith("opencl")), "cpu:0")
    device = xd.device(sys.argv[2] if len(sys.argv) > 2 else opencl)
    picture = only(xd.load(sys.argv[1])) if len(sys.argv) > 1 else a_picture()
    if picture.ndim != 2 or picture.dtype != xd.uint8:
        raise SystemExit(f"a picture is rows and columns of uint8, not {picture.shape} {picture.dtype}")

    png.save(Path("before.png"), picture)
    after = kaleidoscope(picture.to(device))
    png.save(Path("after.png"), after)
    print(f"before.png {picture.shape}, after.png {after.shape}, made on {device} ({device.name})")
    print(xd.explain(after, "cpu"))


if __name__ == "__main__":
    main()
