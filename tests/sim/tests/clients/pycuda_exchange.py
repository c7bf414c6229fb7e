"""PyCUDA and Crossdock exchange an array both ways by the CUDA array interface: `pycuda_exchange.py in|out race|mended`.

PyCUDA's context is not the primary one, and each side has a stream of its own. Without a word of the other's stream
they are in a race.
"""

import sys

import numpy as np
import pycuda.driver as cuda
from pycuda import gpuarray

import crossdock as xd

cuda.init()
context = cuda.Device(0).make_context()
values = np.arange(1024, dtype=np.float32)
pinned = cuda.pagelocked_empty_like(values)
stream, work = cuda.Stream(), xd.Stream("cuda:0")
theirs = xd.Stream("cuda:0", native=stream.handle)
is_mended = "mended" in sys.argv

if "in" in sys.argv:
    pinned[:] = values
    array = gpuarray.empty(values.shape, values.dtype)
    cuda.memcpy_htod_async(array.gpudata, pinned, stream)
    # What PyCUDA describes is ready, as it says; this one is behind its stream.
    described = {**array.__cuda_array_interface__, "version": 3, "stream": stream.handle if is_mended else None}
    tensor = xd.from_cuda_array_interface(described, array)
    copied = tensor.to("cuda:0", stream=work, copy=True)
    there = copied.to("cuda:1", stream=work)
    assert not is_mended or np.array_equal(there.to("cpu").numpy(), values)
    stream.synchronize()
else:
    values[:] = 7
    tensor = xd.empty(values.shape, dtype=values.dtype.name, device="cuda:0")
    tensor.fill(7, stream=work)
    address = tensor.data_ptr()
    if is_mended:
        with theirs:
            described = tensor.__cuda_array_interface__
        assert (described["stream"], described["data"]) == (stream.handle, (address, False))
    array = gpuarray.GPUArray(values.shape, values.dtype, gpudata=address)
    array.get_async(stream, pinned)
    tensor.used_on(theirs)
    stream.synchronize()
    work.synchronize()
    assert not is_mended or np.array_equal(pinned, values)
xd.device("cuda:0").synchronize()
del tensor, array
context.pop()
