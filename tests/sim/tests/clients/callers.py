"""The same mistake by code that holds Python's lock (`callers.py held`) and by code that does not (`callers.py free`).

Prints the report, and the call that waited for a device, as JSON. Another report comes as the interpreter ends, or, with
`thread` behind it, a thread calls then.
"""

from __future__ import annotations

import ctypes
import sys
import threading

driver = (ctypes.PyDLL if sys.argv[1] == "held" else ctypes.CDLL)("libcuda.so.1")
context, ordinal = ctypes.c_void_p(), ctypes.c_int()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0


class Memory:
    def __init__(self) -> None:
        self.address = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(100)) == 0

    def free_twice(self) -> None:
        driver.cuMemFree_v2(self.address)  # the first
        driver.cuMemFree_v2(self.address)  # the second

    def __del__(self) -> None:
        self.free_twice()


def calls_all_the_time() -> None:
    driver.cuCtxSetCurrent(context)
    while True:
        driver.cuCtxGetDevice(ctypes.byref(ordinal))


Memory()
text = ctypes.create_string_buffer(1 << 16)
simulator = ctypes.PyDLL("libcrossdock_sim.so")
for take in (simulator.crossdock_sim_take_reports, simulator.crossdock_sim_take_waits):
    take(text, ctypes.c_size_t(len(text)))
    print(text.value.decode(), end="", flush=True)
if "thread" in sys.argv:
    threading.Thread(target=calls_all_the_time, daemon=True).start()
else:
    last = Memory()
