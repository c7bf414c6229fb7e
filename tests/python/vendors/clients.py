"""A client of CUDA and a client of HIP exchange through Crossdock, neither knowing of the other: `clients.py SEED`.

Numba and cuda.core, and hip-python: each writes on a stream of its own, and the other reads on another. With all waits
nothing is reported and the bytes arrive. Then each client in turn does not say, or does not heed, which stream to wait
for, and that is reported.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cuda_driver
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView
from numba import cuda

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "rocm"))
import driver as rocm
from hip import hip
from rocm.bindings.util.types import DeviceArray

import crossdock as xd

COUNT = 1024
BYTES = 4 * COUNT
DEFAULT = hip.hipMemcpyKind.hipMemcpyDefault
chance = random.Random(int(sys.argv[1]))
device = Device(0)
device.set_current()
rocm.start(1)
pinned = LegacyPinnedMemoryResource()
_word = pinned.allocate(4)
# Words of pinned memory, which a stream of each vendor waits for.
GATES = {"cuda:0": int(_word.handle), "rocm:0": rocm.allocate_pinned(4)}
for _address in GATES.values():
    ctypes.c_uint32.from_address(_address).value = 0


class Described:
    """An array with no more than the interface: of one that has a buffer, hip-python reads that."""

    def __init__(self, array: Any, **other: Any) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **other}
        self.kept = array


def pattern() -> np.ndarray[Any, Any]:
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 1 << 32, COUNT, np.uint32)


def moved(tensor: xd.Tensor, device: str) -> tuple[xd.Tensor, xd.Stream]:
    """The same on another vendor's device, where it is copied once more: that work is held until `let_go`."""
    work, gate = xd.Stream(device), GATES[device]
    there = tensor.to(device, stream=work, copy=True)
    # The simulator cannot see who opens the gate. So only what is behind it may be pending then.
    work.synchronize()
    value = ctypes.c_uint32.from_address(gate).value + 1
    if device == "rocm:0":
        rocm.wait_for_word(work.native_handle, gate, value)
    else:
        done(cuda_driver.cuStreamWaitValue32(work.native_handle, gate, value, 0))
    return there.to(device, stream=work, copy=True), work


def let_go(device: str) -> None:
    ctypes.c_uint32.from_address(GATES[device]).value += 1
    rocm.simulator.progress()


def done(answer: tuple[cuda_driver.CUresult]) -> None:
    assert answer[0] == cuda_driver.CUresult.CUDA_SUCCESS, answer


def from_cuda_to_hip(left_out: str) -> bool:
    values, stream, reader = pattern(), cuda.stream(), rocm.stream()
    back = rocm.allocate_pinned(BYTES)
    with cuda.pinned(values):
        array = cuda.to_device(values, stream=stream)
        given = Described(array, stream=None) if left_out == "giver" else array
        tensor, work = moved(xd.as_cuda_array(given), "rocm:0")
        with work:
            taken = DeviceArray.fromObj(Described(tensor))
        if left_out != "taker":
            rocm.wait_for(reader, taken.stream_as_int)
        rocm.call("hipMemcpyAsync", back, taken, BYTES, DEFAULT, reader)
        let_go("rocm:0")
        rocm.synchronize(reader)
        work.synchronize()
        stream.synchronize()
    found = np.ctypeslib.as_array((ctypes.c_uint32 * COUNT).from_address(back)).copy()
    rocm.free_pinned(back)
    return bool((found == values).all())


def from_hip_to_cuda(left_out: str) -> bool:
    values, stream, reader = pattern(), rocm.stream(), device.create_stream()
    memory, source = rocm.call("hipMalloc", BYTES), rocm.allocate_pinned(BYTES)
    rocm.call("hipMemcpy", source, values, BYTES, DEFAULT)
    rocm.call("hipMemcpyAsync", memory, source, BYTES, DEFAULT, stream)
    array = memory.configure(typestr="<u4", shape=(COUNT,))
    array.configure(stream=None if left_out == "giver" else stream)
    tensor, work = moved(xd.as_cuda_array(array), "cuda:0")
    number = -1 if left_out == "taker" else int(reader.handle)
    view = StridedMemoryView.from_dlpack(tensor, stream_ptr=number)
    back = pinned.allocate(BYTES)
    done(cuda_driver.cuMemcpyAsync(int(back.handle), view.ptr, BYTES, int(reader.handle)))
    let_go("cuda:0")
    reader.sync()
    work.synchronize()
    rocm.synchronize(stream)
    found = np.from_dlpack(back).view(np.uint32).copy()
    back.close(reader)
    rocm.free_pinned(source)
    return bool((found == values).all())


WAYS: list[Callable[[str], bool]] = [from_cuda_to_hip, from_hip_to_cuda]


def main() -> None:
    for _ in range(10):
        for way in WAYS:
            assert way(""), way.__name__
    assert not (found := rocm.taken_reports()), found
    for way in WAYS:
        for left_out in ("giver", "taker"):
            way(left_out)
            kinds = {report["kind"] for report in rocm.taken_reports()}
            assert "Race" in kinds, (way.__name__, left_out, kinds)


main()
