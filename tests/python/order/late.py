"""Work that is late whatever the policy, and what a stream reads in the end."""

from __future__ import annotations

import ctypes

import driver

_gate: list[int] = [0, 0]


def gate(stream: int) -> None:
    """Holds a stream until `open_gate`: what is on it behind this is late."""
    if not _gate[0]:
        _gate[0] = driver.allocate_pinned(4)
    driver.wait_for_word(stream, _gate[0], _gate[1] + 1)


def open_gate() -> None:
    """Lets all go that was held."""
    if _gate[0]:
        _gate[1] += 1
        ctypes.c_uint32.from_address(_gate[0]).value = _gate[1]
    # What was held runs before the host waits for anything else, and so does not come behind that.
    driver.simulator.progress()


class Read:
    """Bytes that a stream reads into pinned memory, which `values` waits for."""

    def __init__(self, address: int, size: int, stream: int) -> None:
        self.size, self.stream = size, stream
        self.host = driver.allocate_pinned(size)
        driver.copy_to_host(self.host, address, size, stream)

    def values(self) -> set[int]:
        driver.synchronize(self.stream)
        found = set((ctypes.c_ubyte * self.size).from_address(self.host))
        driver.free_pinned(self.host)
        return found
