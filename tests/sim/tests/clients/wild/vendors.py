"""Races of HIP's streams, and of streams of both vendors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hip import hip

SIZE = 4096
DEFAULT_STREAM = 0


def made(answer: tuple[Any, ...]) -> Any:
    """What a function gives, which succeeds."""
    code, *given = answer
    assert code == hip.hipError_t.hipSuccess, code
    return given[0] if given else None


def copies_read_as_they_were_before(is_mended: bool) -> None:
    """ROCm/pytorch issue 3194: a copy is on a stream of its own, and the default stream computes with its result.

    PyTorch's streams do not wait for the default one, nor does that wait for them: `wait_stream` is the user's.
    """
    transfer = made(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    there, computed = made(hip.hipMalloc(SIZE)), made(hip.hipMalloc(SIZE))
    weights = made(hip.hipHostMalloc(SIZE, 0))
    made(hip.hipMemcpyAsync(there, weights, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, transfer))  # first
    if is_mended:
        event = made(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        made(hip.hipEventRecord(event, transfer))
        made(hip.hipStreamWaitEvent(DEFAULT_STREAM, event, 0))
        made(hip.hipEventDestroy(event))
    made(hip.hipMemcpyAsync(computed, there, SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToDevice, DEFAULT_STREAM))  # second
    made(hip.hipStreamSynchronize(DEFAULT_STREAM))
    made(hip.hipStreamDestroy(transfer))
    made(hip.hipDeviceSynchronize())
    for memory in (there, computed):
        made(hip.hipFree(memory))
    made(hip.hipHostFree(weights))


def staged_through_memory_of_both_vendors(is_mended: bool) -> None:
    """Our own: from one vendor to the other through memory that both have registered.

    No stream of one can wait for an event of the other: only the host can wait between the two.
    """
    from cuda.bindings import driver

    from .parts import device, done, host, memory

    page = np.zeros(SIZE, np.uint8)
    address = page.ctypes.data
    done(driver.cuMemHostRegister(address, SIZE, 0))
    made(hip.hipHostRegister(page, SIZE, 0))
    giver, taker = device.create_stream(), made(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    here, there = memory(giver), made(hip.hipMalloc(SIZE))
    here.copy_from(host, stream=giver)
    done(driver.cuMemcpyDtoHAsync(address, int(here.handle), SIZE, giver.handle))  # first
    if is_mended:
        giver.sync()
    made(hip.hipMemcpyAsync(there, page, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, taker))  # second
    made(hip.hipStreamSynchronize(taker))
    giver.sync()
    made(hip.hipStreamDestroy(taker))
    made(hip.hipFree(there))
    made(hip.hipHostUnregister(page))
    done(driver.cuMemHostUnregister(address))
    here.close(giver)
