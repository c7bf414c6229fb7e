"""The numbers by which CUDA's consumers and producers name streams, and claims that are wrong."""

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Device, LegacyPinnedMemoryResource

import crossdock as xd

device = Device(0)
device.set_current()
tensor = xd.arange(64) if hasattr(xd, "arange") else xd.asarray(np.arange(64, dtype=np.int64))
there = tensor.to("cuda:0")
stream = device.create_stream()

# Consumers: every number that DLPack has, and the one that it refuses.
for number in (None, 1, 2, -1, int(stream.handle)):
    there.__dlpack__(stream=number, max_version=(1, 2))
with pytest.raises(ValueError, match="0 is ambiguous"):
    there.__dlpack__(stream=0)
assert there.__dlpack_device__() == (2, 0)

# The array interface, both versions.
interface = there.__cuda_array_interface__
assert interface["version"] == 3 and interface["stream"] != 0
stream.sync()


def described(data: int, **more: Any) -> dict[str, Any]:
    entry = {"version": 3, "shape": (64,), "typestr": "<i8", "data": (data, False), "strides": None}
    return {**entry, **more}


address = there.data_ptr()
two = described(address)
two["version"] = 2
for each in (two, described(address, stream=None), *(described(address, stream=number) for number in (1, 2, int(stream.handle)))):
    assert xd.from_cuda_array_interface(each).tolist() == list(range(64))
with pytest.raises(ValueError):
    xd.from_cuda_array_interface(described(address, stream=0))

# Claims: memory of another device is that device's, and memory of the host is no device's.
other = tensor.to("cuda:1")
assert str(xd.from_cuda_array_interface(described(other.data_ptr())).device) == "cuda:1"
array = np.arange(64)
with pytest.raises((ValueError, BufferError)):
    xd.from_cuda_array_interface(described(array.ctypes.data))
error, freed = driver.cuMemAlloc(512)
driver.cuMemFree(freed)
with pytest.raises((ValueError, BufferError)):
    xd.from_cuda_array_interface(described(int(freed)))
# Pinned memory of others is read where it is, by CUDA and by the host.
pinned = LegacyPinnedMemoryResource().allocate(512)
np.from_dlpack(pinned).view(np.int64)[:] = 7
seen = xd.from_cuda_array_interface(described(int(pinned.handle)))
assert set(seen.to("cuda:1").tolist()) == {7}
