"""PyCUDA on two streams, one of which reads what the other one brings: `pycuda_streams.py race|mended`."""

import sys

import numpy as np
import pycuda.driver as cuda

cuda.init()
# Its contexts are no primary ones.
context = cuda.Device(0).make_context()
assert cuda.Device(0).name() == "Simulated GPU 0"
values = np.arange(1000, dtype=np.float32)
there, back = cuda.pagelocked_empty_like(values), cuda.pagelocked_empty_like(values)
there[:] = values
memory = cuda.mem_alloc(values.nbytes)
one, other, event = cuda.Stream(), cuda.Stream(), cuda.Event()
cuda.memcpy_htod_async(memory, there, one)
if "mended" in sys.argv:
    event.record(one)
    other.wait_for_event(event)
cuda.memcpy_dtoh_async(back, memory, other)
other.synchronize()
one.synchronize()
if "mended" in sys.argv:
    assert (back == values).all()
cuda.memset_d32(memory, 7, 1000)
copy = np.empty(1000, dtype=np.uint32)
cuda.memcpy_dtoh(copy, memory)
assert (copy == 7).all()
memory.free()
context.pop()
