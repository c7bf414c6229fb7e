"""A consumer that asks for no order (stream -1) and reads at once: `unordered.py [mended]`."""

import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LegacyPinnedMemoryResource
from cuda.core.utils import StridedMemoryView

import crossdock as xd

device = Device(0)
device.set_current()
reader, work = device.create_stream(), xd.Stream("cuda:0")
back = LegacyPinnedMemoryResource().allocate(4096)
tensor = xd.asarray(np.full(4096, 7, np.uint8)).to("cuda:0", copy=True)
tensor.fill(9, stream=work)
number = int(reader.handle) if "mended" in sys.argv else -1
view = StridedMemoryView.from_dlpack(tensor, stream_ptr=number)
driver.cuMemcpyAsync(int(back.handle), view.ptr, 4096, int(reader.handle))
reader.sync()
work.synchronize()
if "mended" in sys.argv:
    assert (np.from_dlpack(back).view(np.uint8) == 9).all()
