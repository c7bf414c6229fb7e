"""The plugin `accelerators`: devices that claim to be CUDA and ROCm, and write down every wait.

The fixture of the same name loads it. `tests/plugins/accelerators.c` says what the log looks like.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import crossdock as xd

ROOT = Path(__file__).resolve().parents[2]
DEVICE, PINNED, MANAGED = 1, 2, 3
NAMES = ["cuda:0", "cuda:1", "cuda:2", "rocm:0", "rocm:1"]


def build(folder: Path, name: str = "accelerators", defines: Sequence[str] = ()) -> Path:
    """Compiles the plugin, or another one of the same folder, into `folder`."""
    library = folder / f"lib{name}.so"
    source = ROOT / f"tests/plugins/{name}.c"
    flags = ["-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    include = f"-I{ROOT / 'sdk/include'}"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *flags, *defines, include, str(source), "-o", str(library)], check=True)
    # A plugin that others can write to is refused.
    library.chmod(0o755)
    return library


class Accelerators:
    """The loaded plugin, its log, and its switches."""

    def __init__(self, library: Path) -> None:
        self.plugin = xd.load_plugin(library)
        self._functions = ctypes.CDLL(str(library))
        self._functions.accel_make.restype = ctypes.c_uint64
        self._functions.accel_make.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64]
        self._functions.accel_take_log.restype = ctypes.c_size_t
        self._functions.accel_take_log.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def log(self) -> list[str]:
        """The lines since the last call: `wait cuda:0/7 e1`."""
        text = ctypes.create_string_buffer(1 << 20)
        length = self._functions.accel_take_log(text, len(text))
        return text.raw[:length].decode().splitlines()

    def waits(self) -> list[str]:
        """Those lines of the log that order work: records, waits and synchronizations."""
        return [line for line in self.log() if line.split()[0] in ("record", "wait", "synchronize")]

    def make(self, device: str, kind: int = DEVICE, size: int = 256) -> int:
        """Memory that the plugin owns, as a foreign library would have allocated it."""
        address: int = self._functions.accel_make(NAMES.index(device), kind, size)
        assert address, "the plugin has no memory left"
        return address

    def streams(self) -> int:
        """How many streams the plugin has, its default streams among them."""
        return int(self._functions.accel_streams())

    def hold(self, on: bool = True) -> None:
        """Whether what is recorded from now on stays pending until somebody synchronizes."""
        self._functions.accel_hold(on)

    def lie(self, on: bool = True) -> None:
        """Whether pointer queries name another device of the type."""
        self._functions.accel_lie(on)

    def capture(self, on: bool = True) -> None:
        """Whether every wait, record and synchronize is an error, as while streams are captured."""
        self._functions.accel_capture(on)

    def fail(self, on: bool = True) -> None:
        """Whether the work before events has failed, and a stream tells of that once."""
        self._functions.accel_fail(on)

    def reset(self) -> None:
        """All switches off, and an empty log."""
        for switch in (self.hold, self.lie, self.capture, self.fail):
            switch(False)
        self.log()
