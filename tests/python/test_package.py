"""The package as it is installed: what its import takes, and its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import crossdock as xd
import pytest
from conftest import Child

OTHERS = """
import sys
before = set(sys.modules)
import crossdock
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - {"crossdock"} - sys.stdlib_module_names))
"""
TIMED = """
import time
start = time.perf_counter()
import {}
print(time.perf_counter() - start)
"""


def answer(program: str) -> str:
    command = [sys.executable, "-c", program]
    # Compiled files are kept, as those of an installed package are.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def test_the_import_takes_no_other_package() -> None:
    assert answer(OTHERS) == ""


def test_the_import_takes_a_quarter_of_numpys_at_most() -> None:
    ours, numpys = [
        min(times)
        for times in zip(
            *((answer(TIMED.format(n)) for n in ("crossdock", "numpy")) for _ in range(7))
        )
    ]
    assert float(ours) <= float(numpys) / 4


INNER = """
try:
    import crossdock
except ImportError as error:
    print(error, flush=True)
"""
SUBINTERPRETER = f"""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run = getattr(interpreters, "exec", None) or interpreters.run_string
run(interpreters.create(), {INNER!r})
"""


def test_a_subinterpreter_is_refused_with_what_to_do() -> None:
    """Rule 35. PyO3's classes are one interpreter's, and attaching from another one hangs."""
    assert "process of its own" in answer(SUBINTERPRETER)


def test_no_message_names_a_function_of_c() -> None:
    for wrong in (
        lambda: xd.device("gpu"),
        lambda: xd.empty(1, dtype="nothing"),
        lambda: xd.empty((1,) * 65),
        lambda: xd.empty((2, 3)).permute_dims((0, 0)),
    ):
        with pytest.raises((ValueError, xd.UnsupportedDeviceError), match=r"^(?!.*xd_).+"):
            wrong()
    with pytest.raises(xd.CopyRequiredError, match=r"^from strides .* only a copy"):
        xd.empty((2, 3)).T.reshape(6, copy=False)


def test_plugins_and_devices_say_who_they_are() -> None:
    # Looks at those that nobody needed so far.
    xd.devices()
    cpu, *others = xd.plugins()
    assert (cpu.name, cpu.path, cpu.state, cpu.detail) == ("cpu", None, "ready", "")
    for plugin in others:
        assert plugin.path and Path(plugin.path).is_file() and plugin.vendor and plugin.version
        # What is missing is said where something is.
        assert (plugin.state == "ready") == (plugin.detail == "")
    for device in xd.devices():
        same = xd.device(device.__dlpack_device__())
        assert device == same == xd.device(str(device)) and hash(device) == hash(same)
        assert str(device) == f"{device.type}:{device.id}" and device.name and device != str(device)
        assert device.uuid is None or len(device.uuid) == 16


def test_a_device_is_found_by_what_stays_with_the_hardware(child: Child, tmp_path: Path) -> None:
    run = child(f"""
from pathlib import Path

import crossdock as xd
from accelerators import build

xd.load_plugin(build(Path({str(tmp_path)!r}), "many"))
two = xd.device("ext_dev:2")
assert two.pci_bus_id == "0000:02:00.0" and two.uuid[15] == 2
assert xd.device(uuid=two.uuid) == xd.device(pci_bus_id="0000:02:00.0") == two
assert xd.device("cpu").pci_bus_id is None and xd.device("cpu").uuid is None
for wrong in [{{"uuid": bytes(16)}}, {{"pci_bus_id": "0000:09:00.0"}}]:
    try:
        xd.device(**wrong)
    except xd.UnsupportedDeviceError as error:
        assert "ext_dev:2 has" in str(error), error
    else:
        raise AssertionError(wrong)
for wrong in [{{}}, {{"spec": "cpu", "uuid": two.uuid}}, {{"uuid": b"short"}}]:
    try:
        xd.device(**wrong)
    except (TypeError, ValueError):
        continue
    raise AssertionError(wrong)
""")
    assert run.returncode == 0, run.stderr


def test_the_command_is_inside() -> None:
    command = Path(xd.__file__).parent / "command"
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert xd.__version__ in run.stdout
    entry = [sys.executable, "-c", "from crossdock._command import main; main()", "--version"]
    assert subprocess.run(entry, capture_output=True, text=True, check=True).stdout == run.stdout
