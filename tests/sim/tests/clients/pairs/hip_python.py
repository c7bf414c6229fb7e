"""`hip-python`."""

from __future__ import annotations

from typing import Any

from hip import hip
from rocm.bindings.util.types import DeviceArray

from .parts import SIZE, Words, Client, Described, Given, Taken, chance, pages

DEFAULT = hip.hipMemcpyKind.hipMemcpyDefault


def made(answer: tuple[Any, ...]) -> Any:
    """What a function gives, which succeeds."""
    code, *given = answer
    assert code == hip.hipError_t.hipSuccess, code
    return given[0] if given else None


pages.register.append(lambda page: made(hip.hipHostRegister(page, SIZE, 0)))


def new_stream() -> int:
    return int(made(hip.hipStreamCreateWithFlags(chance.choice([hip.hipStreamNonBlocking, hip.hipStreamDefault]))))


def wait_for(waiting: int, stream: int) -> None:
    event = made(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    made(hip.hipEventRecord(event, stream))
    made(hip.hipStreamWaitEvent(waiting, event, 0))
    made(hip.hipEventDestroy(event))


def give(values: Words, _vendor: str) -> Given:
    stream, is_ordered = new_stream(), chance.random() < 0.5
    memory = made(hip.hipMallocAsync(SIZE, stream) if is_ordered else hip.hipMalloc(SIZE))
    made(hip.hipMemcpyAsync(memory, values, SIZE, DEFAULT, stream))
    array = DeviceArray.fromObj(memory).configure(typestr="<u4", shape=(SIZE // 4,), stream=stream, _force=True)

    def end(reader: int | None) -> None:
        if reader is not None:
            wait_for(stream, reader)
        if is_ordered:
            made(hip.hipFreeAsync(memory, stream))
        made(hip.hipStreamSynchronize(stream))
        if not is_ordered:
            made(hip.hipFree(memory))
        made(hip.hipStreamDestroy(stream))

    return Given(array, "rocm", end)


def take(given: Given) -> Taken:
    interface, page, reader = given.array.__cuda_array_interface__, pages.take(), new_stream()
    array = DeviceArray.fromObj(Described(interface["data"][0], interface.get("stream"), given.array))
    if array.stream_as_int:
        wait_for(reader, array.stream_as_int)
    made(hip.hipMemcpyAsync(page, array, SIZE, DEFAULT, reader))

    def found() -> Words:
        made(hip.hipStreamSynchronize(reader))
        made(hip.hipStreamDestroy(reader))
        return page

    return Taken(reader, found)


CLIENTS = {"hip-python": Client("rocm", give, take)}
