"""What an installed package does with nothing else installed: run by `scripts/python-wheel`.

python -I wheel_alone.py
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

before = set(sys.modules)
import crossdock as xd  # noqa: E402

others = {name.partition(".")[0] for name in set(sys.modules) - before}
others -= {"crossdock", *sys.stdlib_module_names}
assert not others, f"import crossdock imports {others}"

assert metadata.version("crossdock") == xd.__version__
package = Path(xd.__file__).parent
for name in ("libcrossdock.so.1", "py.typed", "_crossdock.pyi"):
    assert (package / name).is_file(), f"the package lacks {name}"
assert list(package.glob("crossdock/plugins/*.so")), "the package has no plugin"
root = Path(xd.get_include()).parent
for name in (
    "include/crossdock/crossdock.h",
    "include/crossdock/crossdock.hpp",
    "include/crossdock/dlpack.h",
    "include/crossdock/plugin.h",
    "lib/pkgconfig/crossdock.pc",
    "share/crossdock/sdk/Cargo.toml",
    "share/crossdock/sdk/src/lib.rs",
):
    assert (root / name).is_file(), f"the package lacks {name}"
assert list(root.glob("include/crossdock/cpp/*.hpp")), "the package has no headers for C++"
assert Path(xd.get_cmake_dir(), "CrossdockConfig.cmake").is_file(), "the package lacks what CMake needs"

cpu = xd.device("cpu")
assert cpu in xd.devices()
assert {plugin.name for plugin in xd.plugins()} >= {"cpu", "opencl"}

values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
tensor = xd.asarray(values, dtype="float32")
assert (tensor.shape, tensor.dtype, tensor.device) == ((2, 3), xd.float32, cpu)
assert tensor.tolist() == values
assert "float32" in repr(tensor)

memory = bytearray(b"\x01\x02\x03")
view = xd.asarray(memory)
memory[0] = 7
assert view.tolist() == [7, 2, 3], "a buffer is shared"
assert memoryview(view).tobytes() == bytes(memory)

again = xd.from_dlpack(tensor.__dlpack__(max_version=(1, 3)))
assert again.data_ptr() == tensor.data_ptr()
for device in xd.devices():
    assert tensor.to(device).to(cpu).tolist() == values
copied = xd.from_dlpack(tensor, copy=True)
assert copied.data_ptr() != tensor.data_ptr() and copied.tolist() == values

with tempfile.TemporaryDirectory() as folder:
    for name in ("one.npy", "two.safetensors"):
        file = Path(folder) / name
        xd.save(file, tensor if name == "one.npy" else {"weights": tensor})
        loaded = xd.load(file)
        back = loaded if isinstance(loaded, xd.Tensor) else loaded["weights"]
        assert back.tolist() == values
        del loaded, back

command = Path(sysconfig.get_path("scripts")) / "crossdock"
answer = subprocess.run([command, "devices"], capture_output=True, text=True, check=True)
assert "cpu:0" in answer.stdout, answer.stdout
version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
assert xd.__version__ in version.stdout, version.stdout

# The command of an environment runs that environment's Python, whatever `PATH` says.
code = "import sys, crossdock as xd; print(sys.prefix, xd.__file__, xd.zeros((2,)).tolist())"
script = subprocess.run([command, "run", "-c", code], capture_output=True, text=True, check=True)
assert script.stdout == f"{sys.prefix} {xd.__file__} [0.0, 0.0]\n", script.stdout
assert not script.stderr, script.stderr
print(f"crossdock {xd.__version__} works alone, with {', '.join(map(str, xd.devices()))}")
