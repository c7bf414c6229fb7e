"""Rules of order with arrays of hip-python's, which are described by the CUDA array interface, as others are to it.

Its arrays are of bytes, of a `typestr` that NumPy has not: `configure` gives them one, and names their stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import driver
from frameworks import SIZE
from hip import hip
from late import Read, gate
from rocm.bindings.util.types import DeviceArray
from rules_of_order import Verify, foreign, fresh, holds, own, rule

import crossdock as xd


class Described:
    """An array with no more than the interface: of one that has a buffer, hip-python reads that."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def hip_python_gives(allocate: Callable[[], Any]) -> Verify:
    value, stream, array = fresh(), foreign("hip_python"), allocate()
    gate(stream)
    driver.call("hipMemsetD8Async", array, value, SIZE, stream)
    # It has an array for the memory of a device alone, and a pointer for the rest.
    array = DeviceArray.fromObj(array).configure(typestr="<u1", shape=(SIZE,), stream=stream, _force=True)
    tensor, work = xd.as_cuda_array(array), own("work")
    copied = tensor.to("rocm:0", stream=work, copy=True)
    return holds(Read(copied.data_ptr(), SIZE, work.native_handle), value, tensor, copied, array)


def hip_python_takes(device: str) -> Verify:
    """Its copy comes behind the stream that the description names."""
    value, reader = fresh(), foreign("hip_python")
    tensor = xd.empty(SIZE // 4, dtype="uint32", device=device)
    gate(own("writer").native_handle)
    tensor.fill(value * 0x01010101, stream=own("writer"))
    with own("current"):
        array = DeviceArray.fromObj(Described(tensor))
    assert (array.typestr, array.shape) == ("<u4", (SIZE // 4,))
    driver.wait_for(reader, array.stream_as_int)
    return holds(Read(array, SIZE, reader), value, tensor, array)


for _name, _allocate in (
    ("device", lambda: driver.call("hipMalloc", SIZE)),
    ("pinned", lambda: driver.call("hipHostMalloc", SIZE, 0)),
    ("managed", lambda: driver.call("hipMallocManaged", SIZE, hip.hipMemAttachGlobal)),
):
    rule(f"hip_python_gives_{_name}", hip_python_gives, _allocate)
for _device in ("rocm:0", "rocm_host:0"):
    rule(f"hip_python_takes_{_device.partition(':')[0]}", hip_python_takes, _device)
