"""What the simulator tells and takes from within the process that it simulates (`docs/simulator.md`)."""

from __future__ import annotations

import ctypes
import json
from typing import Any

_text = ctypes.create_string_buffer(1 << 20)


class Simulator:
    """It, behind the library of a vendor."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def progress(self) -> None:
        """Runs all that can run."""
        while self._library.crossdock_sim_progress(ctypes.c_size_t(1000)) > 0:
            pass

    def taken_reports(self) -> list[dict[str, Any]]:
        """What was reported since the last time."""
        size = self._library.crossdock_sim_take_reports(_text, ctypes.c_size_t(len(_text)))
        assert 0 < size <= len(_text)
        return [json.loads(line) for line in _text.value.decode().splitlines()]

    def drop(self, name: str, nth: int) -> bool:
        """Lets the nth call of a function by this thread do nothing; 0: none. Whether one is still to come so far."""
        is_to_come = self._library.crossdock_sim_drop_call(name.encode(), ctypes.c_uint64(nth))
        assert is_to_come >= 0
        return bool(is_to_come)
