"""Moves a model's weights to a device and back, and verifies every byte.

    python weights.py [MODEL.safetensors] [DEVICE]

Without a model it takes the one that `scripts/demo` fetched (a voice detector), or writes a small one.
DEVICE is `opencl:0` where there is one, else `cpu:0`. Needs no other package.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import crossdock as xd

Weights = Mapping[str, xd.Tensor]
CACHE = Path(__file__).resolve().parents[2] / ".cache/wheels"


def a_model(folder: Path) -> Path:
    """A model to move: a real one if there is any, else a small one written into `folder`."""
    for fetched in sorted(CACHE.glob("silero-vad-*/silero_vad/data/silero_vad_16k.safetensors")):
        return fetched
    written = folder / "small.safetensors"
    layers = {f"layer{n}.weight": xd.full((64, 64), n / 8, dtype="float32") for n in range(16)}
    xd.save(written, {**layers, "scale": xd.ones((64,), dtype="bfloat16")})
    return written


def moved(weights: Weights, device: xd.Device, *, copy: bool | None = None) -> tuple[Weights, float]:
    """The weights on `device`, and the seconds that it took."""
    start = time.perf_counter()
    there = {name: tensor.to(device, copy=copy) for name, tensor in weights.items()}
    device.synchronize()
    return there, time.perf_counter() - start


def shown(what: str, size: int, seconds: float, *, is_shared: bool = False) -> None:
    """One line of the report."""
    speed = "nothing is copied" if is_shared else f"{size / seconds / 1e9:.2f} GB/s"
    print(f"{what:<30}{size / 1e6:9.2f} MB{seconds * 1e3:10.2f} ms   {speed}")


def same_bytes(a: xd.Tensor, b: xd.Tensor) -> bool:
    """Whether two tensors of the host have the same dtype, shape and bytes, NaNs included."""
    described = (a.dtype, a.shape) == (b.dtype, b.shape)
    return described and memoryview(a.raw()) == memoryview(b.raw())


def main() -> None:
    """Loads, moves, moves back, compares."""
    names = [str(device) for device in xd.devices()]
    opencl = next((name for name in names if name.startswith("opencl")), "cpu:0")
    device = xd.device(sys.argv[2] if len(sys.argv) > 2 else opencl)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else a_model(Path(folder))
        weights = xd.load(path)  # maps the file: nothing is read yet
        if isinstance(weights, xd.Tensor):
            raise SystemExit(f"{path} holds one array, and no named weights")
        size = sum(tensor.nbytes for tensor in weights.values())
        dtypes = Counter(str(tensor.dtype) for tensor in weights.values())
        print(f"{path.name}: {len(weights)} tensors ({', '.join(dtypes)}) -> {device} {device.name}")

        route = xd.explain(max(weights.values(), key=lambda tensor: tensor.nbytes), device)
        print(f"the largest: {route}")

        there, seconds = moved(weights, device)  # shares the memory where the device reaches it
        shown(f"cpu:0 -> {device}", size, seconds, is_shared=route.kind == "alias")
        there, seconds = moved(there, device, copy=True)
        shown(f"{device} -> {device}, a copy", size, seconds)
        back, seconds = moved(there, xd.device("cpu"), copy=True)
        shown(f"{device} -> cpu:0, a copy", size, seconds)

        different = [name for name in weights if not same_bytes(weights[name], back[name])]
        if different:
            raise SystemExit(f"these came back different: {', '.join(different)}")
        print(f"verified: {len(back)} tensors came back bit for bit")


if __name__ == "__main__":
    main()
