"""CuPy for ROCm and Crossdock exchange an array both ways by DLPack: `cupy_exchange.py in|out race|mended`.

CuPy lets the stream that it is asked for wait for its own, and asks for its own. In the race nobody is asked to wait.
"""

import sys

import cupy
import cupyx
import numpy as np

import crossdock as xd

is_mended = "mended" in sys.argv
values = np.arange(1024, dtype=np.float32)
stream, work = cupy.cuda.Stream(non_blocking=True), xd.Stream("rocm:0")
pinned = cupyx.empty_pinned(values.shape, values.dtype)


class Unordered:
    """An array whose consumer's stream waits for nothing."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**{**asked, "stream": -1})


def given(array):
    return array if is_mended else Unordered(array)


if "in" in sys.argv:
    pinned[:] = values
    with stream, work:
        array = cupy.empty(values.shape, values.dtype)
        array.data.copy_from_host_async(pinned.ctypes.data, values.nbytes, stream)
        tensor = xd.from_dlpack(given(array))
    assert (str(tensor.device), array.__dlpack_device__()) == ("rocm:0", (10, 0))
    copied = tensor.to("rocm:0", stream=work, copy=True)
    there = copied.to("rocm:1", stream=work)
    assert not is_mended or np.array_equal(there.to("cpu").numpy(), values)
    if is_mended:
        # By the CUDA array interface it names its stream.
        with stream:
            array.data.memset_async(0, values.nbytes, stream)
            again = xd.as_cuda_array(array)
        assert not again.to("rocm:1", copy=True).to("cpu").numpy().any()
    work.synchronize()
    stream.synchronize()
else:
    tensor = xd.empty(values.shape, dtype=values.dtype.name, device="rocm:0")
    tensor.fill(7, stream=work)
    with stream:
        array = cupy.from_dlpack(given(tensor))
        assert array.data.ptr == tensor.data_ptr()
        array.get(stream=stream, out=pinned, blocking=False)
    stream.synchronize()
    work.synchronize()
    assert not is_mended or (pinned == 7).all()
xd.device("rocm:0").synchronize()
