"""AMD's runtime as libraries call it, by hip-python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hip import hip

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from simulator import Simulator

NAME, TYPE, MANAGED_TYPE = "rocm", 10, 10
# The default stream has this number in DLPack too, which has none for a thread's own.
LEGACY = 0
# By these a stream waits for another one, or the host.
OF_STREAMS = ["hipStreamWaitEvent"]
BY_THE_HOST = ["hipEventSynchronize", "hipStreamSynchronize", "hipEventQuery", "hipStreamQuery"]
_devices: list[int] = []
simulator = Simulator("libamdhip64.so")
taken_reports = simulator.taken_reports


def call(name: str, *arguments: Any) -> Any:
    """What a function gives, which succeeds."""
    code, *given = getattr(hip, name)(*arguments)
    assert code == hip.hipError_t.hipSuccess, f"{name} answered {code}"
    return given[0] if given else None


def start(devices: int = 2) -> None:
    call("hipInit", 0)
    _devices.extend(range(devices))


def on(device: int) -> None:
    """Makes a device the thread's."""
    call("hipSetDevice", device)


def stream() -> int:
    """A stream that the default one does not wait for."""
    return int(call("hipStreamCreateWithFlags", hip.hipStreamNonBlocking))


def allocate(size: int) -> int:
    return int(call("hipMalloc", size))


def allocate_pinned(size: int) -> int:
    return int(call("hipHostMalloc", size, 0))


def free_pinned(address: int) -> None:
    call("hipHostFree", address)


def fill(address: int, value: int, size: int, stream: int) -> None:
    call("hipMemsetD8Async", address, value, size, stream)


def copy_to_host(target: int, source: int, size: int, stream: int) -> None:
    call("hipMemcpyDtoHAsync", target, source, size, stream)


def wait_for(waiting: int, stream: int) -> None:
    """Makes one stream wait for what is on another one now, by an event, which goes at once."""
    event = call("hipEventCreateWithFlags", hip.hipEventDisableTiming)
    call("hipEventRecord", event, stream)
    call("hipStreamWaitEvent", waiting, event, 0)
    call("hipEventDestroy", event)


def wait_for_word(stream: int, address: int, value: int) -> None:
    """Holds a stream until a word of pinned memory is at least this."""
    call("hipStreamWaitValue32", stream, address, value, hip.hipStreamWaitValueGte, 0xFFFFFFFF)


def synchronize(stream: int) -> None:
    call("hipStreamSynchronize", stream)


def end_all() -> None:
    """Waits for all that the devices do."""
    for device in _devices:
        on(device)
        call("hipDeviceSynchronize")
    on(0)
