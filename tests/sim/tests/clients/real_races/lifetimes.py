"""Memory is given back, or used again, while a stream is still at work with it."""

from __future__ import annotations

from cuda.bindings import driver
from cuda.core.utils import StridedMemoryView

from answers import checked

from .parts import SIZE, CachingAllocator, default, device, host, memory, result


def memory_used_again_too_early(is_mended: bool) -> None:
    """torchrec PR 4231: memory is given back and used again while a side stream still copies from it.

    `record_stream` keeps a block until then, so another one is used.
    """
    side, allocator = device.create_stream(), CachingAllocator(default)
    tensor = allocator.allocate()
    tensor.copy_from(host, stream=default)
    side.wait(default)
    tensor.copy_to(result, stream=side)  # first
    allocator.free(tensor)
    another = allocator.allocate(is_fresh=is_mended)
    another.copy_from(host, stream=default)  # second
    default.sync()
    side.sync()
    allocator.end()


def a_use_that_the_allocator_does_not_see(is_mended: bool) -> None:
    """pytorch issue 181191: the allocator knows the stream of a block, and nothing of another one that reads it.

    By `record_use` the stream that gets the block next waits for that reader, as FSDP2 does by hand.
    """
    compute, communication = device.create_stream(), device.create_stream()
    allocator, gathered = CachingAllocator(compute), memory(communication)
    for _ in range(2):
        bucket = allocator.allocate()
        bucket.copy_from(host, stream=compute)  # second
        communication.wait(compute)
        gathered.copy_from(bucket, stream=communication)  # first
        if is_mended:
            allocator.record_use(bucket, communication)
        allocator.free(bucket)
    compute.sync()
    communication.sync()
    allocator.end()
    gathered.close(communication)


def memory_released_before_it_is_used(is_mended: bool) -> None:
    """cutile-python issue 88: the deleter of a capsule ran while arguments were read, before the launch.

    The consumer is to keep what it took until it is done with it.
    """
    producer, launch = device.create_stream(), device.create_stream()
    tensor, copy = memory(producer), memory(launch)
    tensor.copy_from(host, stream=producer)
    producer.sync()
    argument = StridedMemoryView.from_dlpack(tensor, stream_ptr=-1)
    address = argument.ptr
    del tensor
    if not is_mended:
        del argument  # first
    checked(driver.cuMemcpyDtoDAsync(int(copy.handle), address, SIZE, launch.handle))  # second
    launch.sync()
    if is_mended:
        del argument
    producer.sync()
    copy.close(launch)


def memory_released_behind_the_launch(is_mended: bool) -> None:
    """cutile-python PR 89: kept until the launch, and not until the stream is past it.

    The deleter is to run behind an event.
    """
    producer, launch = device.create_stream(), device.create_stream()
    tensor, copy = memory(producer), memory(launch)
    tensor.copy_from(host, stream=producer)
    producer.sync()
    argument = StridedMemoryView.from_dlpack(tensor, stream_ptr=-1)
    del tensor
    checked(driver.cuMemcpyDtoDAsync(int(copy.handle), argument.ptr, SIZE, launch.handle))  # first
    event = launch.record()
    if is_mended:
        event.sync()
    del argument  # second
    launch.sync()
    producer.sync()
    copy.close(launch)
