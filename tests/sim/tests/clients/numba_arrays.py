"""Numba's arrays: copies both ways, streams, events, pinned and mapped memory, the CUDA Array Interface."""

import numpy as np
from numba import cuda

values = np.arange(1000, dtype=np.float32)
there = cuda.to_device(values)
assert (there.copy_to_host() == values).all()
assert cuda.get_current_device().name in ("Simulated GPU 0", b"Simulated GPU 0")

stream, event = cuda.stream(), cuda.event()
pinned = cuda.pinned_array(1000, dtype=np.float32)
pinned[:] = values * 2
on_stream = cuda.to_device(pinned, stream=stream)
event.record(stream)
event.synchronize()
assert (cuda.as_cuda_array(on_stream).copy_to_host() == values * 2).all()

mapped = cuda.mapped_array(10)
mapped[:] = 3
assert there.__cuda_array_interface__["shape"] == (1000,) and mapped.sum() == 30
