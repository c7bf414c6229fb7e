"""NVIDIA's own packages, `cuda.bindings` and `cuda.core`, on two streams: `cuda_core.py [mended]`.

One stream fills memory, another one reads it. Without `mended` nothing orders the two.
"""

import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView

device = Device(0)
device.set_current()
assert device.name == "Simulated GPU 0", device.name
error, version = driver.cuDriverGetVersion()
assert (error, version) == (driver.CUresult.CUDA_SUCCESS, 13_000)
error, *_ = driver.cuMemAlloc(0)
assert error == driver.CUresult.CUDA_ERROR_INVALID_VALUE

one, other = device.create_stream(), device.create_stream()
pinned = LegacyPinnedMemoryResource()
there, back = pinned.allocate(4096), pinned.allocate(4096)
np.from_dlpack(there).view(np.uint8)[:] = 9
memory = device.memory_resource.allocate(4096, stream=one)
memory.copy_from(there, stream=one)
if "mended" in sys.argv:
    other.wait(one)
memory.copy_to(back, stream=other)
other.sync()
one.sync()
if "mended" in sys.argv:
    assert (np.from_dlpack(back).view(np.uint8) == 9).all()

# DLPack says whose memory it is.
view = StridedMemoryView.from_dlpack(memory, stream_ptr=int(other.handle))
assert (view.shape, view.device_id, view.is_device_accessible) == ((4096,), 0, True)
for buffer in (memory, there, back):
    buffer.close(one)
one.sync()
