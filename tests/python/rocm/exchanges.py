"""Exchanges between Crossdock's ROCm plugin and hip-python that keep the rules: `exchanges.py SEED COUNT`.

Each writes memory on a stream, hands it over by the CUDA array interface, and reads it on another stream.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import driver
import numpy as np
import pytest
from driver import call
from hip import hip
from rocm.bindings.util.types import DeviceArray

import crossdock as xd

SIZE = 4096
chance = random.Random(int(sys.argv[1]))
driver.start(call("hipGetDeviceCount"))


class Described:
    """An array with no more than the interface: of one that has a buffer, hip-python reads that."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def pattern() -> np.ndarray[Any, Any]:
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 1 << 32, SIZE // 4, np.uint32)


def sent(values: np.ndarray[Any, Any], memory: Any, stream: int) -> DeviceArray:
    """An array of hip-python's, whose content is on its way on a stream. It says so."""
    call("hipMemcpyAsync", memory, values, SIZE, hip.hipMemcpyKind.hipMemcpyDefault, stream)
    array = DeviceArray.fromObj(memory)
    return array.configure(typestr="<u4", shape=(SIZE // 4,), stream=stream, _force=True)


def read(array: DeviceArray, stream: int) -> np.ndarray[Any, Any]:
    """What a stream of hip-python's reads, behind the one that the array names."""
    assert (array.typestr, array.shape) == ("<u4", (SIZE // 4,))
    if array.stream_as_int:
        driver.wait_for(stream, array.stream_as_int)
    back = np.zeros(SIZE // 4, np.uint32)
    call("hipMemcpyAsync", back, array, SIZE, hip.hipMemcpyKind.hipMemcpyDefault, stream)
    driver.synchronize(stream)
    return back


def checked(tensor: xd.Tensor, values: np.ndarray[Any, Any]) -> None:
    assert (np.asarray(tensor.to("cpu").numpy()) == values).all()


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], tuple[int, int]]] = {
    "device": (lambda: call("hipMalloc", SIZE), lambda at: call("hipFree", at), (10, 0)),
    "pinned": (lambda: call("hipHostMalloc", SIZE, 0), lambda at: call("hipHostFree", at), (11, 0)),
    "managed": (
        lambda: call("hipMallocManaged", SIZE, hip.hipMemAttachGlobal), lambda at: call("hipFree", at), (10, 0)
    ),
}


def from_hip_python(device: int, stream: int) -> None:
    """Memory of each kind; what it becomes is its own device's, and goes to the other one."""
    kind, (allocate, free, pair) = chance.choice(list(KINDS.items()))
    memory, values, work = allocate(), pattern(), xd.Stream(f"rocm:{device}")
    tensor = xd.as_cuda_array(sent(values, memory, stream))
    assert str(tensor.device) == f"rocm:{device}" and tensor.dtype == xd.uint32
    stated = (pair[0], device if kind != "pinned" else 0)
    assert tensor.__dlpack_device__() == stated and xd.pointer_info(int(memory)).kind == kind
    there = tensor.to(f"rocm:{chance.randrange(2)}", stream=work, copy=True)
    checked(there, values)
    checked(tensor, values)
    del tensor, there
    xd.wait_for_releases()
    driver.synchronize(stream)
    free(memory)


def to_hip_python(device: int, stream: int) -> None:
    """Its stream waits for the one that is named, or nothing is left to wait for."""
    values, work = pattern(), xd.Stream(f"rocm:{device}")
    target = chance.choice([f"rocm:{device}", f"rocm_host:{device}"])
    tensor = xd.asarray(values).to(target, stream=work, copy=True)
    with chance.choice([work, xd.current_stream(f"rocm:{device}")]):
        array = DeviceArray.fromObj(Described(tensor))
    assert array.stream_as_int is None or array.stream_as_int > 2
    assert (read(array, stream) == values).all()
    for number in (None, 0, stream, -1):
        tensor.__dlpack__(stream=number if target.startswith("rocm:") else None)
    if target.startswith("rocm:"):
        # 1 and 2 mean one stream on CUDA, and none here.
        for number in (1, 2):
            with pytest.raises(ValueError, match="on ROCm it is None, 0, a handle or -1"):
                tensor.__dlpack__(stream=number)


def across(device: int, stream: int) -> None:
    """From its stream over the other device, by Crossdock, to its stream."""
    memory, values, other = call("hipMalloc", SIZE), pattern(), xd.device(f"rocm:{1 - device}")
    work = xd.Stream(other)
    there = xd.as_cuda_array(sent(values, memory, stream)).to(other, stream=work, copy=True)
    driver.on(other.id)
    reader = driver.stream()
    with work:
        assert (read(DeviceArray.fromObj(Described(there)), reader) == values).all()
    call("hipStreamDestroy", reader)
    driver.on(device)
    del there
    xd.wait_for_releases()
    driver.synchronize(stream)
    call("hipFree", memory)


def bytes_have_no_name(_device: int, _stream: int) -> None:
    """What hip-python calls a byte is no `typestr` of NumPy's."""
    memory = call("hipMalloc", SIZE)
    with pytest.raises(ValueError, match='"B" is no typestr like "<f4"'):
        xd.as_cuda_array(memory)
    assert xd.as_cuda_array(memory.configure(typestr="<u1")).shape == (SIZE,)
    call("hipFree", memory)


WAYS = [from_hip_python, to_hip_python, across, bytes_have_no_name]
for at in range(int(sys.argv[2])):
    device = chance.randrange(2)
    driver.on(device)
    stream = driver.stream()
    # Each at least once.
    (WAYS[at] if at < len(WAYS) else chance.choice(WAYS))(device, stream)
    # The thread's device and last error are still the client's.
    assert call("hipGetDevice") == device
    assert hip.hipPeekAtLastError()[0] == hip.hipError_t.hipSuccess
    call("hipStreamDestroy", stream)
