"""Which functions of the driver exchanges call, and how often, as the simulator counts them: `calls.py WHAT`.

`untouched`, `started` and `opened` take arrays of NumPy: before anybody uses CUDA, after others started it, and after
this process put a tensor there. `forked` does so before a fork, whose child uses CUDA. `interface` and `dlpack` take
memory of others, the first on a stream that is named, and drop it. Prints the calls of one exchange.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import crossdock as xd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from handmade import Forged, Producer

TIMES = 10
simulator = ctypes.PyDLL("libcuda.so.1")
text = ctypes.create_string_buffer(1 << 16)


def taken() -> dict[str, int]:
    """The functions that were called since the last time, and how often."""
    assert simulator.crossdock_sim_take_calls(text, ctypes.c_size_t(len(text))) > 0
    calls = [json.loads(line) for line in text.value.decode().splitlines()]
    return {call["function"]: call["calls"] for call in calls}


def count(exchange: Callable[[], None]) -> None:
    """Prints what one exchange calls, each of which is like the last: the first ones make what is kept."""
    for _ in range(3):
        exchange()
    taken()
    for _ in range(TIMES):
        exchange()
    calls = taken()
    assert all(number % TIMES == 0 for number in calls.values()), calls
    print(json.dumps({name: number // TIMES for name, number in calls.items()}))


def from_numpy() -> None:
    for array in (np.arange(64), np.zeros((3, 4), np.float32)[:, ::2], np.zeros(0)):
        assert np.array_equal(xd.from_dlpack(array).numpy(), array)


def allocate() -> int:
    """Uses CUDA as others do: the address of 4096 bytes."""
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert simulator.cuInit(0) == 0
    assert simulator.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert simulator.cuCtxSetCurrent(context) == 0
    assert simulator.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) == 0
    return address.value


def foreign(take: Callable[[], xd.Tensor]) -> None:
    assert str(take().device) == "cuda:0"

    def take_and_drop() -> None:
        take()

    count(take_and_drop)
    for device in ("cuda:0", "cuda:1", "cpu"):
        for stream in (None, xd.Stream("cuda:0")):
            take().to(device, stream=stream, copy=True)
    # Not counted above: an import, a route or a free that waits for all work of a device.
    assert simulator.crossdock_sim_device_waits() == 0


what = sys.argv[1]
if what == "untouched":
    from_numpy()
    assert taken() == {}
    count(from_numpy)
elif what == "started":
    allocate()
    count(from_numpy)
elif what == "opened":
    there = xd.asarray(np.arange(64)).to("cuda:0")
    count(from_numpy)
elif what == "forked":
    from_numpy()
    child = os.fork()
    if child == 0:
        os._exit(simulator.cuMemFree_v2(ctypes.c_uint64(allocate())))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print("{}")
elif what == "interface":
    address, stream = allocate(), ctypes.c_uint64()
    assert simulator.cuStreamCreate(ctypes.byref(stream), 1) == 0
    described: dict[str, Any] = {
        "version": 3, "shape": (4096,), "typestr": "|u1", "data": (address, False), "strides": None,
        "stream": stream.value,
    }
    foreign(lambda: xd.from_cuda_array_interface(described))
elif what == "dlpack":
    address = allocate()
    forged: dict[str, Any] = {"dtype": (1, 8, 1), "device": (2, 0), "data": address}
    foreign(lambda: xd.from_dlpack(Producer(Forged((4096,), **forged))))
