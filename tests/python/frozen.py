"""What a program frozen by PyInstaller does with crossdock: run by `scripts/python-wheel`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import crossdock as xd

bundle = Path(sys._MEIPASS).resolve()  # type: ignore[attr-defined]
mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "crossdock" in line}
libraries = {Path(path) for path in mapped if path.endswith((".so", ".so.1"))}

values = [[1.0, 2.0], [3.0, 4.0]]
tensor = xd.asarray(values, dtype="float32")
for device in xd.devices():
    assert tensor.to(device).to("cpu").tolist() == values, device
plugins = {plugin.name: plugin.path for plugin in xd.plugins()}
assert {"cpu", "cuda", "opencl", "rocm"} <= set(plugins), plugins
for path in [*libraries, *(Path(path) for path in plugins.values() if path)]:
    assert bundle in path.resolve().parents, f"{path} is not of {bundle}"
assert any(path.name == "libcrossdock.so.1" for path in libraries), libraries

assert len(memoryview(tensor).tobytes()) == 16
assert "float32" in repr(tensor)
with tempfile.TemporaryDirectory() as folder:
    for name in ("one.npy", "two.npz", "three.safetensors"):
        file = Path(folder) / name
        xd.save(file, tensor if name == "one.npy" else {"weights": tensor})
        loaded = xd.load(file)
        assert (loaded if isinstance(loaded, xd.Tensor) else loaded["weights"]).tolist() == values
        del loaded
if (child := os.fork()) == 0:
    assert xd.zeros((2,)).tolist() == [0.0, 0.0]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(f"frozen: crossdock {xd.__version__} works with {', '.join(sorted(plugins))}")
