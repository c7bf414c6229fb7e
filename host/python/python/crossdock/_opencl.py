"""Memory objects of OpenCL: those that PyOpenCL or another library made."""

from __future__ import annotations

import sys

from . import _crossdock as xd
from ._asarray import extents_of
from ._crossdock import Stream, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._crossdock import _DtypeLike, _ShapeLike


def from_opencl(
    mem: Any, *, shape: _ShapeLike, dtype: _DtypeLike, offset: int = 0, queue: Any = None
) -> Tensor:
    """A compact tensor over OpenCL memory that another library made, without a copy.

    `mem` is a PyOpenCL `Buffer`, or fine-grained SVM of PyOpenCL; or an integer, the `cl_mem` of a
    tensor that is alive here (what others made: `pyopencl.MemoryObject.from_int_ptr`). It is kept while the tensor lives. `offset` is in
    bytes. `queue` (PyOpenCL's, or a `Stream`) is the one whose work writes the memory: what is done
    with the tensor waits for it. Without one, the memory is taken to be ready.

    Raises `TypeError` for what is no such object; `UnsupportedDeviceError` where no device here can
    take the memory, with the reason of each; `BufferError` or `ValueError` where shape and offset
    leave the memory.
    """
    extents, dtype = extents_of(shape), xd._dtype(dtype)
    if offset < 0:
        raise ValueError(f"offset {offset} is before the memory")
    devices = [device for device in xd.devices() if device.type == "opencl"]
    address = mem.svm_ptr if _is_own(mem, "SVMPointer") else None
    believed = _is_own(mem, "MemoryObjectHolder")
    if address is None:
        handle: Any = mem.int_ptr if believed else mem
        if type(handle) is not int:
            kind = type(mem).__name__
            if hasattr(mem, "base_data"):
                raise TypeError(
                    f"{kind} is an array over memory of OpenCL: give `a.base_data, shape=a.shape, "
                    "dtype=a.dtype, offset=a.offset, queue=a.queue`, of one in C order"
                )
            raise TypeError(f"{kind} is no memory of OpenCL: give a Buffer of PyOpenCL")
    reasons = []
    for device in devices:
        try:
            stream = _stream(device, queue)
            if address is not None:
                return _of_svm(mem, address, device, stream, (dtype, extents, offset))
            # While the tensor lives, its consumers may name the queue.
            owner = (mem, stream)
            what = (dtype, extents, offset)
            return xd._adopt_native(device, handle, what, owner, stream, not believed)
        except xd.DeviceError as error:
            reasons.append(f"{device}: {error}")
    why = "; ".join(reasons) if reasons else "no OpenCL device is here"
    raise xd.UnsupportedDeviceError(f"no device here can take the OpenCL memory: {why}")


def _is_own(thing: Any, kind: str) -> bool:
    """Whether it is PyOpenCL's own: drivers crash on what is no object of theirs."""
    own = getattr(sys.modules.get("pyopencl"), kind, None)
    return own is not None and issubclass(type(thing), own)


def _stream(device: Any, queue: Any) -> Stream | None:
    if queue is None or isinstance(queue, Stream):
        return queue
    return Stream(device, native=queue)


def _of_svm(
    mem: Any, address: int, device: Any, stream: Stream | None, what: tuple[Any, list[int], int]
) -> Tensor:
    """Fine-grained SVM is host memory that the device's plugin can alias."""
    dtype, extents, offset = what
    bits = dtype.bits * dtype.lanes
    for extent in extents:
        bits *= extent
    needs = offset + (bits + 7) // 8
    if offset < 0 or needs > mem.size:
        raise ValueError(f"shape and offset need {needs} bytes, and the memory has {mem.size}")
    if stream is not None:
        # Not the stream, which tells of a failure once: that is its own users'.
        stream.record().synchronize()
    place = (address + offset, False)
    host = xd._from_address(place, dtype, extents, None, padded=False, owner=mem)
    return host.to(device, copy=False)
