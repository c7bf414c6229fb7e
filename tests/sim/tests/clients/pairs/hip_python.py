"""`hip-python`."""

from __future__ import annotations

from hip import hip
from rocm.bindings.util.types import DeviceArray

from answers import checked

from .parts import SIZE, Words, Client, Described, Given, Taken, chance, pages

DEFAULT = hip.hipMemcpyKind.hipMemcpyDefault


pages.register.append(lambda page: checked(hip.hipHostRegister(page, SIZE, 0)))


def new_stream() -> int:
    return int(checked(hip.hipStreamCreateWithFlags(chance.choice([hip.hipStreamNonBlocking, hip.hipStreamDefault]))))


def wait_for(waiting: int, stream: int) -> None:
    event = checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    checked(hip.hipEventRecord(event, stream))
    checked(hip.hipStreamWaitEvent(waiting, event, 0))
    checked(hip.hipEventDestroy(event))


def give(values: Words, _vendor: str) -> Given:
    stream, is_ordered = new_stream(), chance.random() < 0.5
    memory = checked(hip.hipMallocAsync(SIZE, stream) if is_ordered else hip.hipMalloc(SIZE))
    checked(hip.hipMemcpyAsync(memory, values, SIZE, DEFAULT, stream))
    array = DeviceArray.fromObj(memory).configure(typestr="<u4", shape=(SIZE // 4,), stream=stream, _force=True)

    def end(reader: int | None) -> None:
        if reader is not None:
            wait_for(stream, reader)
        if is_ordered:
            checked(hip.hipFreeAsync(memory, stream))
        checked(hip.hipStreamSynchronize(stream))
        if not is_ordered:
            checked(hip.hipFree(memory))
        checked(hip.hipStreamDestroy(stream))

    return Given(array, "rocm", end)


def take(given: Given) -> Taken:
    interface, page, reader = given.array.__cuda_array_interface__, pages.take(), new_stream()
    array = DeviceArray.fromObj(Described(interface["data"][0], interface.get("stream"), given.array))
    if array.stream_as_int:
        wait_for(reader, array.stream_as_int)
    checked(hip.hipMemcpyAsync(page, array, SIZE, DEFAULT, reader))

    def found() -> Words:
        checked(hip.hipStreamSynchronize(reader))
        checked(hip.hipStreamDestroy(reader))
        return page

    return Taken(reader, found)


CLIENTS = {"hip-python": Client("rocm", give, take)}
