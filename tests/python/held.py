"""The CPU's default stream, held by an event that a test completes, by the library's C functions."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import crossdock as xd


class Held:
    """`stream` stands still until `let_go`."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(xd.__file__).with_name("libcrossdock.so.1")))
        self._library = library
        self.stream = xd.current_stream("cpu")
        runtime = self._made("xd_runtime_default")
        device = self._made("xd_runtime_device_named", runtime, b"cpu:0")
        stream = self._made("xd_stream_default", device)
        self._event = self._made("xd_event_create_host", device)
        self._call("xd_stream_wait", stream, self._event, None)

    def let_go(self, status: int = 0) -> None:
        """Completes the event, by a status other than 0 with a failure."""
        self._call("xd_event_complete", self._event, ctypes.c_uint32(status))

    def _made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(name, *arguments, ctypes.byref(made))
        assert made.value, name
        return made

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.restype = ctypes.c_void_p
        assert function(*arguments) is None, name
