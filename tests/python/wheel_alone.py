"""What an installed package does with nothing else installed: run by `scripts/python-wheel`.

python -I wheel_alone.py
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from liars import forge  # noqa: E402

before = set(sys.modules)
import crossdock as xd  # noqa: E402

others = {name.partition(".")[0] for name in set(sys.modules) - before}
others -= {"crossdock", *sys.stdlib_module_names}
assert not others, f"import crossdock imports {others}"

assert metadata.version("crossdock") == xd.__version__
package = Path(xd.__file__).parent
for file in ("libcrossdock.so.1", "py.typed", "_crossdock.pyi"):
    assert (package / file).is_file(), f"the package lacks {file}"
assert list(package.glob("crossdock/plugins/*.so")), "the package has no plugin"

cpu = xd.device("cpu")
assert cpu in xd.devices()
assert {plugin.name for plugin in xd.plugins()} >= {"cpu", "opencl"}

forged = forge(shape=(2, 3))
tensor = xd.from_dlpack(forged.producer())
assert (tensor.shape, tensor.dtype, tensor.device) == ((2, 3), xd.float32, cpu)
assert "float32" in repr(tensor)

again = xd.from_dlpack(tensor.__dlpack__(max_version=(1, 3)))
assert again.data_ptr() == tensor.data_ptr()
for device in xd.devices():
    assert tensor.to(device).to(cpu).shape == (2, 3)
copied = xd.from_dlpack(tensor, copy=True)
assert copied.data_ptr() != tensor.data_ptr()
del tensor, again
assert forged.deleted == 1

command = Path(sysconfig.get_path("scripts")) / "crossdock"
answer = subprocess.run([command, "devices"], capture_output=True, text=True, check=True)
assert "cpu:0" in answer.stdout, answer.stdout
version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
assert xd.__version__ in version.stdout, version.stdout
print(f"crossdock {xd.__version__} works alone, with {', '.join(map(str, xd.devices()))}")
