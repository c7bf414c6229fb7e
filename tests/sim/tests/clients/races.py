"""Races that people met, rebuilt from what their threads say: `races.py NAME [mended]`.

Each is a few calls of `cuda.core`, with kernels replaced by copies and fills. `mended` is what the thread came to.
"""

import sys
from collections.abc import Callable

from cuda.bindings import driver
from cuda.core import Buffer, Device, LegacyPinnedMemoryResource, Stream

device = Device(0)
device.set_current()
is_mended = "mended" in sys.argv
default = device.default_stream
pinned = LegacyPinnedMemoryResource()
host = pinned.allocate(4096)


def made_on(stream: Stream) -> Buffer:
    """Memory that a stream has work on: a kernel's result."""
    memory = device.memory_resource.allocate(4096, stream=stream)
    memory.copy_from(host, stream=stream)
    return memory


def arrays_sent_before_they_are_ready() -> None:
    """mpi4py PR 60: MPI reads a buffer on streams of its own, and CuPy's stream was not synchronised before."""
    current, inside_mpi = device.create_stream(), device.create_stream()
    array = made_on(current)
    if is_mended:
        current.sync()
    array.copy_to(host, stream=inside_mpi)
    inside_mpi.sync()
    array.close(current)


def the_wrong_stream_waits() -> None:
    """triton python_backend PR 243: the producer was given the default stream, and let a new one wait in its place."""
    producer, consumer = device.create_stream(), device.create_stream()
    tensor = made_on(producer)
    waiting = consumer if is_mended else device.create_stream()
    waiting.wait(producer)
    tensor.copy_to(host, stream=consumer)
    consumer.sync()
    producer.sync()
    tensor.close(producer)


def a_capsule_that_waits_for_nothing() -> None:
    """jax PR 28057: a test handed memory on by a capsule, which says of no stream when it is ready."""
    exporter, importer = device.create_stream(), device.create_stream()
    array = made_on(exporter)
    if is_mended:
        importer.wait(exporter.record())
    copy = device.memory_resource.allocate(4096, stream=importer)
    copy.copy_from(array, stream=importer)
    importer.sync()
    exporter.sync()
    array.close(exporter)
    copy.close(importer)


def weights_used_before_they_are_there() -> None:
    """diffusers PR 13502: weights travel on a stream of their own, and the default stream computes with them."""
    transfer = device.create_stream()
    weights = device.memory_resource.allocate(4096, stream=default)
    transfer.wait(default)
    weights.copy_from(host, stream=transfer)
    if is_mended:
        default.wait(transfer)
    result = device.memory_resource.allocate(4096, stream=default)
    result.copy_from(weights, stream=default)
    default.sync()
    transfer.sync()
    for buffer in (weights, result):
        buffer.close(default)


def memory_used_again_too_early() -> None:
    """torchrec PR 4231: memory is given back and used again while a side stream still copies from it."""
    side = device.create_stream()
    tensor = made_on(default)
    side.wait(default)
    tensor.copy_to(host, stream=side)
    if is_mended:  # what `record_stream` does
        default.wait(side)
    tensor.copy_from(pinned.allocate(4096), stream=default)
    default.sync()
    side.sync()
    tensor.close(default)


races: dict[str, Callable[[], None]] = {
    race.__name__: race
    for race in (
        arrays_sent_before_they_are_ready,
        the_wrong_stream_waits,
        a_capsule_that_waits_for_nothing,
        weights_used_before_they_are_there,
        memory_used_again_too_early,
    )
}

if __name__ == "__main__":
    if not set(sys.argv[1:2]) & set(races):
        sys.exit(f"races.py NAME [mended], behind `scripts/with-sim --`, where NAME is one of {', '.join(races)}")
    error, version = driver.cuDriverGetVersion()
    assert error == driver.CUresult.CUDA_SUCCESS and version
    races[sys.argv[1]]()
    default.sync()
