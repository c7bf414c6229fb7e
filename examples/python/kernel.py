"""A kernel of PyOpenCL works on a NumPy image where it lies: on a CPU device nothing is copied.

    python kernel.py [DEVICE]

The array becomes a tensor of the OpenCL device, the tensor's `cl_mem` an argument of the kernel, and
the device's own queue is the one that the kernel runs on. Needs NumPy and PyOpenCL.
"""

from __future__ import annotations

import sys
from typing import Any

import crossdock as xd
import numpy as np
import pyopencl as cl

NEGATIVE = """
kernel void negative(global uchar *pixels) {
    size_t at = get_global_id(0);
    pixels[at] = 255 - pixels[at];
}
"""


def an_image() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A bright disc on a dark ground, 480 by 640, as photographs are: rows, columns, one byte."""
    y, x = np.mgrid[:480, :640]
    inside = (x - 320) ** 2 + (y - 240) ** 2 < 180**2
    image = np.empty(inside.shape, np.uint8)
    image[:] = np.where(inside, 200 + y // 10, x // 8)
    return image


def main() -> None:
    """Turns the image into its negative, in its own memory if the device reaches that."""
    names = [str(device) for device in xd.devices() if device.type == "opencl"]
    if not names:
        raise SystemExit("skipped: there is no OpenCL device here")
    device = xd.device(sys.argv[1] if len(sys.argv) > 1 else names[0])
    image = an_image()
    before = image.copy()

    tensor = xd.from_dlpack(image, device=device)  # the same memory on a CPU device, else a copy
    print(xd.explain(xd.from_dlpack(image), device))

    # PyOpenCL keeps the objects, and not the host memory that they may lie over: `tensor` and `stream` live
    # until the kernel is done.
    stream = xd.current_stream(device)
    queue = cl.CommandQueue.from_int_ptr(stream.native_handle, retain=True)
    pixels: Any = cl.MemoryObject.from_int_ptr(tensor.cl_mem, retain=True)
    kernel = cl.Kernel(cl.Program(queue.context, NEGATIVE).build(), "negative")
    kernel(queue, (image.size,), None, pixels).wait()

    after = np.from_dlpack(tensor.to("cpu"))
    in_place = np.array_equal(image, 255 - before)
    print(f"{device} ({device.name}) made the negative:", np.array_equal(after, 255 - before))
    print("in the array's own memory, without a copy:", in_place)


if __name__ == "__main__":
    main()
