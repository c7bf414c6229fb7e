"""`cuda.core`, `cuda.bindings` and `numba-cuda`."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver
from cuda.core import Buffer, Device, Stream
from cuda.core.utils import StridedMemoryView
from numba import cuda

from answers import checked

from .parts import SIZE, Words, Client, Described, Given, Taken, chance, pages

device = Device(0)
device.set_current()
LEGACY, PER_THREAD = 1, 2


pages.register.append(lambda page: checked(driver.cuMemHostRegister(page.ctypes.data, SIZE, 0)))


def wait_for(waiting: int, stream: int) -> None:
    """Makes one stream wait for what is on another one now, by an event, which goes at once."""
    event = checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    checked(driver.cuEventRecord(event, stream))
    checked(driver.cuStreamWaitEvent(waiting, event, 0))
    checked(driver.cuEventDestroy(event))


class CoreArray:
    """A library's array over a buffer of `cuda.core`'s: it lets the stream that it is asked for wait for its own."""

    def __init__(self, buffer: Buffer, stream: Stream) -> None:
        self.buffer, self.stream = buffer, stream
        self.__cuda_array_interface__ = Described(int(buffer.handle), int(stream.handle)).__cuda_array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **asked: Any) -> object:
        if stream != -1:
            # Nobody named means the default stream.
            Stream.from_handle(stream or LEGACY).wait(self.stream)
        return self.buffer.__dlpack__(**asked)


def give_by_core(values: Words, _vendor: str) -> Given:
    stream = chance.choice([device.create_stream, lambda: device.default_stream])()
    buffer = device.memory_resource.allocate(SIZE, stream=stream)
    buffer.copy_from(Buffer.from_handle(values.ctypes.data, SIZE), stream=stream)
    array: Any = CoreArray(buffer, stream)
    if chance.random() < 0.3:
        # A buffer names no stream, so its maker waits.
        stream.sync()
        array = Described(int(buffer.handle), None, buffer)

    def end(reader: int | None) -> None:
        if reader is not None:
            stream.wait(Stream.from_handle(reader))
        buffer.close(stream)
        stream.sync()

    return Given(array, "cuda", end)


def take_by_core(given: Given) -> Taken:
    reader, page = device.create_stream(), pages.take()
    number = int(reader.handle)
    view = StridedMemoryView.from_any_interface(given.array, stream_ptr=number)
    Buffer.from_handle(view.ptr, SIZE).copy_to(Buffer.from_handle(page.ctypes.data, SIZE), stream=reader)

    def found() -> Words:
        nonlocal view
        reader.sync()
        del view
        reader.close()
        return page

    return Taken(number, found)


def give_by_bindings(values: Words, _vendor: str) -> Given:
    kind = chance.choice(["blocking", "non-blocking", "legacy", "per-thread"])
    is_own = kind.endswith("blocking")
    stream = LEGACY if kind == "legacy" else PER_THREAD
    if is_own:
        stream = int(checked(driver.cuStreamCreate(int(kind == "non-blocking"))))
    is_ordered = chance.random() < 0.5
    address = int(checked(driver.cuMemAllocAsync(SIZE, stream) if is_ordered else driver.cuMemAlloc(SIZE)))
    checked(driver.cuMemcpyHtoDAsync(address, values.ctypes.data, SIZE, stream))

    def end(reader: int | None) -> None:
        if reader is not None:
            wait_for(stream, reader)
        if is_ordered:
            checked(driver.cuMemFreeAsync(address, stream))
        checked(driver.cuStreamSynchronize(stream))
        if not is_ordered:
            checked(driver.cuMemFree(address))
        if is_own:
            checked(driver.cuStreamDestroy(stream))

    return Given(Described(address, stream), "cuda", end)


def take_by_bindings(given: Given) -> Taken:
    interface, page = given.array.__cuda_array_interface__, pages.take()
    reader = int(checked(driver.cuStreamCreate(1)))
    if interface.get("stream") is not None:
        wait_for(reader, interface["stream"])
    checked(driver.cuMemcpyDtoHAsync(page.ctypes.data, interface["data"][0], SIZE, reader))

    def found() -> Words:
        checked(driver.cuStreamSynchronize(reader))
        checked(driver.cuStreamDestroy(reader))
        return page

    return Taken(reader, found)


def give_by_numba(values: Words, _vendor: str) -> Given:
    stream = chance.choice([cuda.stream, cuda.legacy_default_stream, cuda.per_thread_default_stream])()
    array = cuda.device_array(SIZE // 4, "u4", stream=stream)
    array.copy_to_device(values, stream=stream)

    def end(reader: int | None) -> None:
        if reader is not None:
            event = cuda.event(timing=False)
            event.record(cuda.external_stream(reader))
            event.wait(stream)
        stream.synchronize()

    return Given(array, "cuda", end)


def take_by_numba(given: Given) -> Taken:
    page, reader = pages.take(), cuda.stream()
    # By the interface, behind whose stream it waits, or by its own events.
    is_own = chance.random() < 0.5
    array = cuda.as_cuda_array(given.array, sync=not is_own)
    if is_own and array.stream:
        event = cuda.event(timing=False)
        event.record(array.stream)
        event.wait(reader)
    array.copy_to_host(page, stream=reader)

    def found() -> Words:
        nonlocal array
        reader.synchronize()
        del array
        return page

    return Taken(int(reader.handle), found)


CLIENTS = {
    "cuda.core": Client("cuda", give_by_core, take_by_core),
    "cuda.bindings": Client("cuda", give_by_bindings, take_by_bindings),
    "numba-cuda": Client("cuda", give_by_numba, take_by_numba),
}
