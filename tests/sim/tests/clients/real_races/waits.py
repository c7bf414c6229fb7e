"""A stream that reads does not wait for the one that writes."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver
from cuda.core import Buffer
from cuda.core.utils import StridedMemoryView
from numba import cuda

from answers import checked

from .parts import SIZE, Array, Capsule, default, device, host, memory, pinned, result


def arrays_sent_before_they_are_ready(is_mended: bool) -> None:
    """mpi4py PR 60: MPI reads a buffer on streams of its own, and CuPy's stream was not synchronised before.

    The array is Numba's here. Of its interface MPI reads the address, and no stream.
    """
    current, inside_mpi = cuda.stream(), device.create_stream()
    array = cuda.device_array(SIZE, "u1", stream=current)
    array.copy_to_device(np.from_dlpack(host).view(np.uint8), stream=current)  # first
    if is_mended:
        current.synchronize()
    address, _ = array.__cuda_array_interface__["data"]
    checked(driver.cuMemcpyDtoHAsync(int(result.handle), address, SIZE, inside_mpi.handle))  # second
    inside_mpi.sync()
    current.synchronize()


def weights_used_before_they_are_there(is_mended: bool) -> None:
    """diffusers PR 13502: weights travel on a stream of their own, and the default stream computes with them."""
    transfer = device.create_stream()
    weights, computed = memory(default), memory(default)
    transfer.wait(default)
    weights.copy_from(host, stream=transfer)  # first
    if is_mended:
        default.wait(transfer)
    computed.copy_from(weights, stream=default)  # second
    default.sync()
    transfer.sync()
    for buffer in (weights, computed):
        buffer.close(default)


def a_tensor_whose_stream_is_still_at_work(is_mended: bool) -> None:
    """triton python_backend PR 223: a capsule was asked for without a stream, and read on the default stream.

    Since then the backend takes the tensor itself, and asks it to be ready for the default stream, number 1.
    """
    current = device.create_stream()
    tensor = Array(memory(current), current)
    tensor.memory.copy_from(host, stream=current)  # first
    capsule = tensor.__dlpack__(stream=1) if is_mended else tensor.__dlpack__()
    view = StridedMemoryView.from_dlpack(Capsule(capsule, tensor.__dlpack_device__()), stream_ptr=-1)
    checked(driver.cuMemcpyDtoHAsync(int(result.handle), view.ptr, SIZE, default.handle))  # second
    default.sync()
    current.sync()
    del view
    tensor.memory.close(current)


def the_wrong_stream_waits(is_mended: bool) -> None:
    """triton python_backend PR 243: PyTorch took the number of the default stream for a new stream, and let that wait.

    Since then the backend names a stream of its own, and waits for it.
    """
    current, proxy = device.create_stream(), device.create_stream()
    tensor = memory(current)
    tensor.copy_from(host, stream=current)  # first
    waiting = proxy if is_mended else device.create_stream()
    waiting.wait(current)
    (proxy if is_mended else default).sync()
    tensor.copy_to(result, stream=default)  # second
    default.sync()
    current.sync()
    tensor.close(current)


def a_capsule_that_waits_for_nothing(is_mended: bool) -> None:
    """jax PR 28057: a test handed memory on by a capsule, and the stream of the other side was never named."""
    exporter, importer = device.create_stream(), device.create_stream()
    array, copy = Array(memory(exporter), exporter), memory(importer)
    array.memory.copy_from(host, stream=exporter)  # first
    if is_mended:
        view = StridedMemoryView.from_dlpack(array, stream_ptr=int(importer.handle))
    else:
        capsule = Capsule(array.__dlpack__(stream=None), array.__dlpack_device__())
        view = StridedMemoryView.from_dlpack(capsule, stream_ptr=int(importer.handle))
    copy.copy_from(Buffer.from_handle(view.ptr, SIZE), stream=importer)  # second
    importer.sync()
    exporter.sync()
    del view
    array.memory.close(exporter)
    copy.close(importer)


def a_stream_that_the_consumer_does_not_name(is_mended: bool) -> None:
    """pytorch issue 195825: `from_dlpack` named its stream for memory of two types of devices, and for no other one.

    Its list has the types of CUDA's and ROCm's devices. Here the memory is pinned, which is a type of its own (3).
    """
    current, reader = device.create_stream(), device.create_stream()
    tensor, copy = Array(pinned.allocate(SIZE), current), memory(reader)
    made = memory(current)
    made.copy_from(host, stream=current)
    made.copy_to(tensor.memory, stream=current)  # first
    is_named = is_mended or tensor.__dlpack_device__()[0] in (2, 10)
    view = StridedMemoryView.from_dlpack(tensor, stream_ptr=int(reader.handle) if is_named else -1)
    checked(driver.cuMemcpyHtoDAsync(int(copy.handle), view.ptr, SIZE, reader.handle))  # second
    reader.sync()
    current.sync()
    del view
    for buffer in (tensor.memory, made):
        buffer.close(current)
    copy.close(reader)
