"""Races of HIP's streams, and of streams of both vendors."""

from __future__ import annotations

import numpy as np
from hip import hip

from answers import checked

SIZE = 4096
DEFAULT_STREAM = 0


def copies_read_as_they_were_before(is_mended: bool) -> None:
    """ROCm/pytorch issue 3194: a copy is on a stream of its own, and the default stream computes with its result.

    PyTorch's streams do not wait for the default one, nor does that wait for them: `wait_stream` is the user's.
    """
    transfer = checked(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    there, computed = checked(hip.hipMalloc(SIZE)), checked(hip.hipMalloc(SIZE))
    weights = checked(hip.hipHostMalloc(SIZE, 0))
    checked(hip.hipMemcpyAsync(there, weights, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, transfer))  # first
    if is_mended:
        event = checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        checked(hip.hipEventRecord(event, transfer))
        checked(hip.hipStreamWaitEvent(DEFAULT_STREAM, event, 0))
        checked(hip.hipEventDestroy(event))
    checked(hip.hipMemcpyAsync(computed, there, SIZE, hip.hipMemcpyKind.hipMemcpyDeviceToDevice, DEFAULT_STREAM))  # second
    checked(hip.hipStreamSynchronize(DEFAULT_STREAM))
    checked(hip.hipStreamDestroy(transfer))
    checked(hip.hipDeviceSynchronize())
    for memory in (there, computed):
        checked(hip.hipFree(memory))
    checked(hip.hipHostFree(weights))


def staged_through_memory_of_both_vendors(is_mended: bool) -> None:
    """Our own: from one vendor to the other through memory that both have registered.

    No stream of one can wait for an event of the other: only the host can wait between the two.
    """
    from cuda.bindings import driver

    from .parts import device, host, memory

    page = np.zeros(SIZE, np.uint8)
    address = page.ctypes.data
    checked(driver.cuMemHostRegister(address, SIZE, 0))
    checked(hip.hipHostRegister(page, SIZE, 0))
    giver, taker = device.create_stream(), checked(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    here, there = memory(giver), checked(hip.hipMalloc(SIZE))
    here.copy_from(host, stream=giver)
    checked(driver.cuMemcpyDtoHAsync(address, int(here.handle), SIZE, giver.handle))  # first
    if is_mended:
        giver.sync()
    checked(hip.hipMemcpyAsync(there, page, SIZE, hip.hipMemcpyKind.hipMemcpyHostToDevice, taker))  # second
    checked(hip.hipStreamSynchronize(taker))
    giver.sync()
    checked(hip.hipStreamDestroy(taker))
    checked(hip.hipFree(there))
    checked(hip.hipHostUnregister(page))
    checked(driver.cuMemHostUnregister(address))
    here.close(giver)
