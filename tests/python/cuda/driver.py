"""CUDA's driver as libraries call it, and what the simulator behind it tells."""

from __future__ import annotations

import ctypes
import json
from typing import Any

U64, SIZE = ctypes.c_uint64, ctypes.c_size_t
LEGACY, PER_THREAD = 1, 2
_driver = ctypes.CDLL("libcuda.so.1")
_contexts: list[int] = []
_text = ctypes.create_string_buffer(1 << 20)


def call(name: str, *arguments: Any) -> None:
    code = getattr(_driver, name)(*arguments)
    assert code == 0, f"{name} answered {code}"


def start(devices: int = 2) -> None:
    """Makes the first device's primary context the thread's, as the runtime library of CUDA does."""
    call("cuInit", 0)
    for device in range(devices):
        context = U64()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        _contexts.append(context.value)
    on(0)


def on(device: int) -> None:
    """Makes a device the thread's."""
    call("cuCtxSetCurrent", U64(_contexts[device]))


def made(name: str, *arguments: Any) -> int:
    """What a function makes and gives back first."""
    out = U64()
    call(name, ctypes.byref(out), *arguments)
    return out.value


def stream() -> int:
    """A stream that the default ones do not wait for."""
    return made("cuStreamCreate", 1)


def allocate(size: int) -> int:
    return made("cuMemAlloc_v2", SIZE(size))


def fill(address: int, value: int, size: int, stream: int) -> None:
    call("cuMemsetD8Async", U64(address), ctypes.c_ubyte(value), SIZE(size), U64(stream))


def copy(target: int, source: int, size: int, stream: int) -> None:
    call("cuMemcpyDtoDAsync_v2", U64(target), U64(source), SIZE(size), U64(stream))


def wait_for(waiting: int, stream: int) -> None:
    """Makes one stream wait for what is on another one now, by an event, which goes at once."""
    event = made("cuEventCreate", 2)
    call("cuEventRecord", U64(event), U64(stream))
    call("cuStreamWaitEvent", U64(waiting), U64(event), 0)
    call("cuEventDestroy_v2", U64(event))


def synchronize(stream: int) -> None:
    call("cuStreamSynchronize", U64(stream))


def progress() -> None:
    """Runs all that can run."""
    while _driver.crossdock_sim_progress(SIZE(1000)) > 0:
        pass


_gate: list[int] = [0, 0]


def gate(stream: int) -> None:
    """Holds a stream until `open_gate`: what is on it behind this is late, whatever the policy."""
    if not _gate[0]:
        _gate[0] = made("cuMemAllocHost_v2", SIZE(4))
    call("cuStreamWaitValue32_v2", U64(stream), U64(_gate[0]), _gate[1] + 1, 0)


def open_gate() -> None:
    """Lets all go that was held."""
    if _gate[0]:
        _gate[1] += 1
        ctypes.c_uint32.from_address(_gate[0]).value = _gate[1]
    # What was held runs before the host waits for anything else, and so does not come behind that.
    progress()


class Read:
    """Bytes that a stream reads into pinned memory, which `values` waits for."""

    def __init__(self, address: int, size: int, stream: int) -> None:
        self.size, self.stream = size, stream
        self.host = made("cuMemAllocHost_v2", SIZE(size))
        call("cuMemcpyDtoHAsync_v2", U64(self.host), U64(address), SIZE(size), U64(stream))

    def values(self) -> set[int]:
        synchronize(self.stream)
        found = set((ctypes.c_ubyte * self.size).from_address(self.host))
        call("cuMemFreeHost", U64(self.host))
        return found


def end_all() -> None:
    """Waits for all that both devices do."""
    for device in range(len(_contexts)):
        on(device)
        call("cuCtxSynchronize")
    on(0)


def _lines(name: str) -> list[dict[str, Any]]:
    assert 0 < getattr(_driver, name)(_text, SIZE(len(_text))) <= len(_text)
    return [json.loads(line) for line in _text.value.decode().splitlines()]


def taken_reports() -> list[dict[str, Any]]:
    """What was reported since the last time."""
    return _lines("crossdock_sim_take_reports")


def drop(name: str, nth: int) -> bool:
    """Lets the nth call of a function by this thread do nothing; 0: none. Whether one is still to come so far."""
    is_to_come = _driver.crossdock_sim_drop_call(name.encode(), U64(nth))
    assert is_to_come >= 0
    return bool(is_to_come)
