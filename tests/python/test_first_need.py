"""A plugin that names a driver is opened when its devices are needed: who takes arrays of the host's starts no driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accelerators import build

# What each program begins with: how often the driver was called, and a child that says how it went.
BEGIN = """
import ctypes, json, os, sys
import numpy as np
import crossdock as xd

def calls():
    return ctypes.CDLL(os.environ["DRIVER"]).driver_calls()

def state():
    return next(p.state for p in xd.plugins() if p.name == "vendor")

def child(work):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            said = work()
        except Exception as error:
            said = type(error).__name__ + ": " + str(error)
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read, 4096))
"""


def vendor(folder: Path, *flags: str) -> Path:
    """The plugin `vendor`, with two devices, in a folder of its own."""
    described = ['-DNAME="vendor"', '-DTYPES="hexagon"', "-DNUMBERS=16,16", *flags]
    library = build(folder, "with_driver", described)
    return library.rename(folder / "libcrossdock_plugin_vendor.so")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vendor(tmp_path_factory.mktemp("plugins"))


@pytest.fixture(scope="module")
def driver_that_wants_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vendor(tmp_path_factory.mktemp("plugins"), "-DWANTS_GIL")


def run(program: str, driver: Path) -> Any:
    environment = os.environ | {"CROSSDOCK_PLUGIN_PATH": str(driver.parent), "DRIVER": str(driver)}
    program = f"{BEGIN}\n{program}\nprint(json.dumps(said))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_array_starts_no_driver_and_leaves_fork_usable(driver: Path) -> None:
    program = """
t = xd.from_dlpack(np.arange(4.0))
said = [t.tolist(), t.to("cpu", copy=True).tolist(), np.from_dlpack(t).tolist(), state(), calls()]
said.append(child(lambda: [xd.device("hexagon:1").name != "", xd.from_dlpack(np.arange(2)).tolist()]))
said += [calls(), len([d for d in xd.devices() if d.type == "hexagon"]), state(), calls()]
"""
    values = [0.0, 1.0, 2.0, 3.0]
    expected = [values, values, values, "not looked at", 0, [True, [0, 1]], 0, 2, "ready", 2]
    assert run(program, driver) == expected


def test_once_it_was_needed_a_child_is_told_to_spawn(driver: Path) -> None:
    program = """
xd.device("hexagon:0")
said = [child(lambda: xd.device("hexagon:0").name), child(lambda: xd.from_dlpack(np.arange(2)).tolist())]
"""
    refused, taken = run(program, driver)
    assert "spawn" in refused and taken == [0, 1]


# A type that nobody serves, and a name that is no type's.
@pytest.mark.parametrize("name", ["webgpu:0", "hexagn:0"])
def test_the_error_for_an_unknown_device_names_who_was_not_looked_at(
    name: str, driver: Path
) -> None:
    program = f"""
try:
    xd.device({name!r})
except xd.UnsupportedDeviceError as error:
    said = [str(error), calls()]
"""
    text, calls = run(program, driver)
    assert "`vendor`" in text and "cpu:0" in text and calls == 0


# What needs a device of the plugin, or may.
NEEDS = {
    "devices": "xd.devices()",
    "a name": 'xd.device("hexagon:0")',
    "a pair": "xd.device((16, 0))",
    "a uuid": 'xd.device(uuid=b"v" + bytes(15))',
    "a place": 'refused(lambda: xd.device(pci_bus_id="0000:03:00.0"))',
    "a pointer": "xd.pointer_info(4096)",
    "a new tensor": 'xd.zeros(4, device="hexagon:0")',
    "a move": 'xd.from_dlpack(np.arange(4)).to("hexagon:0")',
    "an explanation": 'xd.explain(xd.from_dlpack(np.arange(4)), "hexagon:0")',
    "a claim": "refused(lambda: xd.from_dlpack(Producer(Forged(device=(16, 0)))))",
    "an older claim": "refused(lambda: xd.from_dlpack(Producer(Forged(device=(16, 0), version=None))))",
    "a claim of CUDA": "refused(lambda: xd.asarray(OfCuda()))",
}


@pytest.mark.parametrize("need", NEEDS)
def test_a_driver_that_wants_python_is_started_without_its_lock(
    need: str, driver_that_wants_python: Path
) -> None:
    program = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
from handmade import Forged, Producer

class OfCuda:
    __cuda_array_interface__ = {{"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}}

def refused(work):
    try:
        work()
    except (BufferError, RuntimeError, ValueError):
        return
    raise AssertionError("it was taken")

{NEEDS[need]}
said = [state(), calls()]
"""
    state, calls = run(program, driver_that_wants_python)
    assert state == "ready" and calls >= 2


def test_an_array_is_taken_while_another_thread_imports_numpy_ma(child: Any) -> None:
    run = child("""
import sys, types
import numpy as np
import crossdock as xd
# What others find there until the module has run.
sys.modules["numpy.ma"] = types.ModuleType("numpy.ma")
print(xd.asarray(np.arange(3)).tolist(), xd.asarray([np.arange(2)]).tolist())
""")
    assert (run.returncode, run.stdout) == (0, "[0, 1, 2] [[0, 1]]\n"), run.stderr
