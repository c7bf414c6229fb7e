"""Exchanges between Crossdock and NVIDIA's packages that keep the rules: `exchanges.py SEED COUNT`.

Each writes memory on a stream, hands it over by a protocol that names a stream, and reads it on another. Over the
simulated driver nothing of it may be reported (`docs/simulator.md`).
"""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView
from numba import cuda

import crossdock as xd

COUNT = 4096
chance = random.Random(int(sys.argv[1]))
device = Device(0)
device.set_current()
pinned = LegacyPinnedMemoryResource()
host = xd.device("cpu")


def pattern() -> np.ndarray[Any, Any]:
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 256, COUNT, np.uint8)


def place() -> xd.Device:
    return xd.device(chance.choice(["cuda:0", "cuda:0", "cuda:1"]))


def check(name: str, found: Any, expected: Any) -> None:
    assert np.array_equal(np.asarray(found).reshape(-1).view(np.uint8), expected), name


def read(view: StridedMemoryView, stream: Any) -> np.ndarray[Any, Any]:
    """The bytes of a view of a client's, read by its driver on its stream."""
    back = pinned.allocate(COUNT)
    (error,) = driver.cuMemcpyAsync(int(back.handle), view.ptr, COUNT, int(stream.handle))
    assert error == driver.CUresult.CUDA_SUCCESS, error
    stream.sync()
    found = np.from_dlpack(back).view(np.uint8).copy()
    back.close(stream)
    return found


def to_cuda_core() -> None:
    """cuda.core waits on its own stream for what Crossdock has on another."""
    bytes_there, stream = pattern(), device.create_stream()
    work = xd.Stream("cuda:0")
    tensor = xd.asarray(bytes_there).to("cuda:0", stream=work, copy=True)
    view = StridedMemoryView.from_dlpack(tensor, stream_ptr=int(stream.handle))
    assert (view.device_id, view.is_device_accessible) == (0, True)
    check("to cuda.core", read(view, stream), bytes_there)


def from_cuda_core() -> None:
    """Its buffers name no stream, so their maker waits first."""
    bytes_there, stream = pattern(), device.create_stream()
    source = pinned.allocate(COUNT)
    np.from_dlpack(source).view(np.uint8)[:] = bytes_there
    buffer = device.memory_resource.allocate(COUNT, stream=stream)
    buffer.copy_from(source, stream=stream)
    stream.sync()
    tensor = xd.from_dlpack(buffer)
    assert str(tensor.device) == "cuda:0"
    there = tensor.to(place(), copy=True)
    check("from cuda.core", there.to(host).numpy(), bytes_there)
    del tensor, there
    source.close(stream)
    buffer.close(stream)


def to_numba() -> None:
    """Numba reads the CUDA array interface, and its stream waits for the one that is named there."""
    bytes_there, work = pattern(), xd.Stream("cuda:0")
    tensor = xd.asarray(bytes_there).to("cuda:0", stream=work, copy=True)
    check("to numba", cuda.as_cuda_array(tensor).copy_to_host(), bytes_there)


def from_numba() -> None:
    """An array that Numba filled on a stream says so."""
    bytes_there, stream = pattern(), cuda.stream()
    with cuda.pinned(bytes_there):
        array = cuda.to_device(bytes_there, stream=stream)
        work = xd.Stream(place())
        there = xd.asarray(array).to(work.device, stream=work, copy=True)
        check("from numba", there.to(host).numpy(), bytes_there)
        stream.synchronize()


def across() -> None:
    """From a client's stream over both devices and the host into another client."""
    bytes_there, stream = pattern(), cuda.stream()
    with cuda.pinned(bytes_there):
        array = cuda.to_device(bytes_there, stream=stream)
        work = xd.Stream("cuda:1")
        there = xd.asarray(array).to("cuda:1", stream=work, copy=True)
        here = there.to("cuda:0", stream=work)
        reader = device.create_stream()
        view = StridedMemoryView.from_dlpack(here, stream_ptr=int(reader.handle))
        check("across", read(view, reader), bytes_there)
        stream.synchronize()


def by_address() -> None:
    """An address of the driver's, with the stream that its content is made on."""
    bytes_there, stream = pattern(), device.create_stream()
    source = pinned.allocate(COUNT)
    np.from_dlpack(source).view(np.uint8)[:] = bytes_there
    error, address = driver.cuMemAlloc(COUNT)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    address = int(address)
    driver.cuMemcpyAsync(address, int(source.handle), COUNT, int(stream.handle))
    described = {
        "version": 3, "shape": (COUNT,), "typestr": "|u1", "data": (address, False),
        "strides": None, "stream": int(stream.handle),
    }
    tensor = xd.from_cuda_array_interface(described)
    assert str(tensor.device) == "cuda:0" and xd.pointer_info(address).size == COUNT
    check("by address", tensor.to(host).numpy(), bytes_there)
    del tensor
    stream.sync()
    driver.cuMemFree(address)
    source.close(stream)


WAYS: list[Callable[[], None]] = [to_cuda_core, from_cuda_core, to_numba, from_numba, across, by_address]
for _ in range(int(sys.argv[2])):
    chance.choice(WAYS)()
