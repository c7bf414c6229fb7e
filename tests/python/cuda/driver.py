"""CUDA's driver as libraries call it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from simulator import Simulator

U64, SIZE = ctypes.c_uint64, ctypes.c_size_t
NAME, TYPE, MANAGED_TYPE = "cuda", 2, 13
LEGACY, PER_THREAD = 1, 2
# By these a stream waits for another one, or the host.
OF_STREAMS = ["cuStreamWaitEvent"]
BY_THE_HOST = ["cuEventSynchronize", "cuStreamSynchronize", "cuEventQuery", "cuStreamQuery"]
_driver = ctypes.CDLL("libcuda.so.1")
_contexts: list[int] = []
simulator = Simulator("libcuda.so.1")
taken_reports = simulator.taken_reports


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


def allocate_pinned(size: int) -> int:
    return made("cuMemAllocHost_v2", SIZE(size))


def free_pinned(address: int) -> None:
    call("cuMemFreeHost", U64(address))


def copy_to_host(target: int, source: int, size: int, stream: int) -> None:
    call("cuMemcpyDtoHAsync_v2", U64(target), U64(source), SIZE(size), U64(stream))


def wait_for_word(stream: int, address: int, value: int) -> None:
    """Holds a stream until a word of pinned memory is at least this."""
    call("cuStreamWaitValue32_v2", U64(stream), U64(address), value, 0)


def end_all() -> None:
    """Waits for all that both devices do."""
    for device in range(len(_contexts)):
        on(device)
        call("cuCtxSynchronize")
    on(0)
