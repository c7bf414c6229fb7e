"""OpenCL memory of PyOpenCL in, and ours out."""

import gc
import signal
import sys
import textwrap
import threading
import weakref
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
from conftest import Child

cl = pytest.importorskip("pyopencl")
OPENCL: Any = next((device for device in xd.devices() if device.type == "opencl"), None)
pytestmark = pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")

DOUBLE = """
kernel void twice(global float *x, uint first) {
    uint at = first + get_global_id(0);
    x[at] = 2 * x[at];
}
"""


@pytest.fixture(scope="module")
def queue() -> Any:
    devices = [
        device
        for platform in cl.get_platforms()
        for device in platform.get_devices()
        if device.name.strip() == OPENCL.name.strip()
    ]
    if not devices:
        pytest.skip("skipped: PyOpenCL sees another driver's devices")
    # Intel's queues do not keep their context.
    context = cl.Context(devices[:1])
    yield cl.CommandQueue(context)


def buffer(queue: Any, array: Any) -> Any:
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=array)


def test_a_buffer_of_pyopencl_is_shared_in_both_directions(queue: Any) -> None:
    array = np.arange(12, dtype=np.float32)
    mem = buffer(queue, array)
    tensor = xd.from_opencl(mem, shape=(3, 4), dtype="float32")
    assert tensor.device.type == "opencl" and tensor.cl_mem == mem.int_ptr
    assert tensor.tolist() == array.reshape(3, 4).tolist()
    tensor[1] = 7
    back = np.empty_like(array)
    cl.enqueue_copy(queue, back, mem)
    assert back.reshape(3, 4)[1].tolist() == [7] * 4
    assert tensor.to("cpu").numpy()[1].tolist() == [7] * 4


def test_a_part_begins_at_an_offset(queue: Any) -> None:
    mem = buffer(queue, np.arange(12, dtype=np.int32))
    tensor = xd.from_opencl(mem, shape=(2, 2), dtype=np.int32, offset=16)
    assert tensor.tolist() == [[4, 5], [6, 7]] and tensor.byte_offset == 16
    assert tensor[1].byte_offset == 24


def test_rectangles_are_copied_between_an_object_and_its_parts(queue: Any) -> None:
    """PoCL ends the process where a command names a part for one."""
    array = np.arange(4096, dtype=np.uint8)
    whole, other = buffer(queue, array), buffer(queue, array)
    parts = [(whole.get_sub_region(at, 1024), array[at : at + 1024]) for at in (0, 2048)]
    for to, to_bytes in [*parts, (whole, array), (other, array)]:
        for source, bytes_ in [*parts, (whole, array), (other, array)]:
            dst = xd.from_opencl(to, shape=to_bytes.size, dtype="uint8")
            src = xd.from_opencl(source, shape=bytes_.size, dtype="uint8")
            dst[512:536:3] = src[0:16:2]
            assert dst[512:536:3].tolist() == bytes_[0:16:2].tolist()


@pytest.mark.parametrize("named", ["an integer", "a buffer"])
@pytest.mark.parametrize("kind", ["allocated", "an alias"])
def test_an_object_of_a_tensor_is_kept_as_that_tensor_is(kind: str, named: str) -> None:
    array = np.arange(1 << 20, dtype=np.uint8)
    expected = array.copy()
    first = xd.asarray(array).to(OPENCL, copy=True if kind == "allocated" else None)
    word = first.cl_mem
    view = xd.from_opencl(
        word if named == "an integer" else cl.Buffer.from_int_ptr(word), shape=array.size, dtype="uint8"
    )
    del first, array
    gc.collect()
    others = [xd.full(expected.size, 99, dtype="uint8", device=OPENCL) for _ in range(4)]
    assert view.cl_mem == word and all(other.cl_mem != word for other in others)
    assert np.array_equal(np.from_dlpack(view.to("cpu", copy=True)), expected)
    view.fill(1)
    assert all(other[-1].item() == 99 for other in others)


@pytest.mark.parametrize("kind", ["allocated", "an alias", "of another part"])
def test_a_part_of_a_tensors_object_keeps_that_tensors_memory(queue: Any, kind: str) -> None:
    array = np.full(1 << 20, 7, dtype=np.uint8)
    size = array.size - 4096
    whole = xd.asarray(array).to(OPENCL, copy=True if kind == "allocated" else None)
    region = cl.Buffer.from_int_ptr(whole.cl_mem).get_sub_region(4096, size)
    part = xd.from_opencl(region, shape=size, dtype="uint8")
    if kind == "of another part":
        region = cl.Buffer.from_int_ptr(whole.cl_mem).get_sub_region(8192, size - 4096)
        part = xd.from_opencl(region, shape=size - 4096, dtype="uint8")
    del whole, array
    gc.collect()
    others = [xd.full(1 << 20, 99, dtype="uint8", device=OPENCL) for _ in range(4)]
    assert set(part.tolist()[::999]) == {7}
    part.fill(1)
    assert set(part.tolist()[::999]) == {1}
    assert all(set(other.tolist()[::999]) == {99} for other in others)


def test_what_a_second_tensor_of_an_object_keeps_outlives_its_work(queue: Any) -> None:
    base = buffer(queue, np.zeros(1 << 16, dtype=np.uint8))
    first = xd.from_opencl(base, shape=1 << 16, dtype="uint8")
    given = cl.Buffer.from_int_ptr(base.int_ptr)
    alone = sys.getrefcount(given)
    second = xd.from_opencl(given, shape=1 << 16, dtype="uint8")
    gate, held = cl.UserEvent(queue.context), cl.CommandQueue(queue.context)
    cl.enqueue_barrier(held, wait_for=[gate])
    second.fill(5, stream=xd.Stream(OPENCL, native=held))
    del second
    gc.collect()
    assert sys.getrefcount(given) > alone, "its producer could give the memory to somebody else"
    gate.set_status(cl.command_execution_status.COMPLETE)
    xd.wait_for_releases(60)
    gc.collect()
    assert sys.getrefcount(given) == alone and first[-1].item() == 5


def test_an_object_whose_tensor_is_being_given_back_is_refused() -> None:
    array = np.zeros(1 << 16, dtype=np.uint8)
    watched = weakref.finalize(array, lambda: None)
    alias = xd.asarray(array).to(OPENCL)
    stream = xd.Stream(OPENCL)
    theirs = cl.CommandQueue.from_int_ptr(stream.native_handle, retain=True)
    gate = cl.UserEvent(theirs.context)
    held = cl.CommandQueue(theirs.context)
    cl.enqueue_barrier(held, wait_for=[gate])
    copy = alias.to(OPENCL, copy=True, stream=xd.Stream(OPENCL, native=held))
    given = cl.Buffer.from_int_ptr(alias.cl_mem)
    del alias, array
    gc.collect()
    with pytest.raises(ValueError, match="its tensor was dropped"):
        xd.from_opencl(given, shape=1 << 16, dtype="uint8")
    gate.set_status(cl.command_execution_status.COMPLETE)
    xd.wait_for_releases(60)
    gc.collect()
    assert not watched.alive and copy[-1].item() == 0


def test_an_object_of_a_tensor_that_is_gone_is_refused(queue: Any) -> None:
    first = xd.zeros(16, device=OPENCL)
    buffer_of_it = cl.Buffer.from_int_ptr(first.cl_mem)
    del first
    gc.collect()
    with pytest.raises((xd.DeviceError, ValueError, TypeError)):
        xd.from_opencl(buffer_of_it.int_ptr, shape=16, dtype="float32")


def test_tensors_of_one_object_know_the_work_of_each_other(queue: Any) -> None:
    mem = buffer(queue, np.zeros(4, dtype=np.float32))
    one, other = (xd.from_opencl(mem, shape=4, dtype="float32") for _ in range(2))
    gate = cl.UserEvent(queue.context)
    held = cl.CommandQueue(queue.context)
    cl.enqueue_barrier(held, wait_for=[gate])
    one.fill(5, stream=xd.Stream(OPENCL, native=held))
    read: list[Any] = []
    thread = threading.Thread(target=lambda: read.extend(other.tolist()))
    thread.start()
    thread.join(0.1)
    assert not read, "it was read before it was written"
    gate.set_status(cl.command_execution_status.COMPLETE)
    thread.join()
    assert read == [5] * 4


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("by", ["the object", "a view of the host", "the host's own", "another part"])
def test_what_is_assigned_may_be_of_another_part_of_one_object(queue: Any, by: str, step: int) -> None:
    array = np.random.default_rng(1).integers(0, 255, 1 << 18, dtype=np.uint8)
    # With the host's own tensor, the object is an alias of its memory.
    hosts = xd.asarray(array.copy())
    own = hosts.to(OPENCL, copy=None if by == "the host's own" else True)
    objects = cl.Buffer.from_int_ptr(own.cl_mem, retain=True)
    first, count = 4096, 100_000
    part, same = (
        xd.from_opencl(objects.get_sub_region(first, array.size - first), shape=array.size - first, dtype="uint8")
        for _ in range(2)
    )
    others = {"a view of the host": own.to("cpu")[first:], "the host's own": hosts[first:]}
    other = {"the object": own[first:], "another part": same, **others}[by]
    expected = array.copy()
    for to, source in ((part, other), (other, part)):
        for at, begin in ((8, 0), (0, 8)):
            to[at : at + count : step] = source[begin : begin + count : step]
            moved = expected[first + begin : first + begin + count : step].copy()
            expected[first + at : first + at + count : step] = moved
            assert np.array_equal(np.from_dlpack(own.to("cpu", copy=True)), expected)


def test_an_integer_is_a_handle_where_it_is_known(queue: Any) -> None:
    mem = buffer(queue, np.arange(4, dtype=np.int64))
    there = xd.from_opencl(mem, shape=4, dtype="int64")
    assert xd.from_opencl(there.cl_mem, shape=4, dtype="int64").tolist() == [0, 1, 2, 3]
    own = xd.asarray(np.arange(4)).to(OPENCL, copy=True)
    assert xd.from_opencl(own.cl_mem, shape=4, dtype="int64").tolist() == [0, 1, 2, 3]


# Any of them crashes a driver that is asked about it.
NO_OBJECTS = [1, 7, 4096, 12345, 1 << 47, (1 << 64) - 8]


class Pretends:
    """An object that has the attributes of PyOpenCL's."""

    def __init__(self, word: int) -> None:
        self.int_ptr = self.ptr = self.svm_ptr = self.cuda_stream = word
        self.size = 64

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.int_ptr


@pytest.mark.parametrize("pretends", [False, True], ids=["an integer", "an object"])
def test_an_integer_that_is_no_object_is_refused(queue: Any, pretends: bool) -> None:
    tensor = xd.ones(4, device=OPENCL)
    foreign = buffer(queue, np.zeros(4))
    idle = cl.CommandQueue(queue.context)
    words = [*NO_OBJECTS, tensor.cl_mem, foreign.int_ptr, idle.int_ptr, id(queue)]
    for word in words:
        native: Any = Pretends(word) if pretends else word
        for call in (
            lambda: xd.Stream(OPENCL, native=native),
            lambda: tensor.to(OPENCL, stream=native, copy=True),
            lambda: xd.ones(3).to(OPENCL, stream=native),
            lambda: tensor.fill(2, stream=native),
            lambda: xd.from_opencl(buffer(queue, np.zeros(4)), shape=4, dtype="int64", queue=native),
            lambda: xd.Stream(OPENCL).record().wait(native),
        ):
            with pytest.raises(ValueError, match="no stream that is known"):
                call()
        if word != tensor.cl_mem or pretends:
            for shape in (4, 0):
                with pytest.raises((TypeError, xd.UnsupportedDeviceError)):
                    xd.from_opencl(native, shape=shape, dtype="float32")
    assert tensor.tolist() == [1] * 4


def test_an_object_of_pyopencl_of_another_kind_is_refused(queue: Any) -> None:
    mem = buffer(queue, np.zeros(4))
    for native in (mem, queue.context, queue.device):
        with pytest.raises(ValueError, match="no stream that is known"):
            xd.Stream(OPENCL, native=native)
    for memory in (queue, queue.context):
        with pytest.raises(TypeError, match="no memory of OpenCL"):
            xd.from_opencl(memory, shape=4, dtype="float32")


def test_a_word_that_is_no_object_is_refused_by_the_plugin(queue: Any) -> None:
    """Without the checks above it, as programs in C call it."""
    what = (xd.float32, [4], 0)
    stream = xd.Stream(OPENCL)  # kept: a queue that is gone is nobody's word any more
    for word in [*NO_OBJECTS, id(queue), stream.native_handle]:
        with pytest.raises(xd.DeviceError):
            xd._crossdock._adopt_native(OPENCL, word, what, None, None, False)


def test_the_buffer_is_kept_while_a_view_lives_and_given_back_after(queue: Any) -> None:
    mem = buffer(queue, np.arange(4, dtype=np.int64))
    before = mem.reference_count
    view = xd.from_opencl(mem, shape=4, dtype="int64")[2:]
    assert mem.reference_count == before + 1
    again = xd.from_opencl(mem, shape=4, dtype="int64")
    assert again.tolist() == [0, 1, 2, 3] and view.tolist() == [2, 3]
    del again
    assert view.tolist() == [2, 3]
    del view
    gc.collect()
    assert mem.reference_count == before


def test_work_of_the_queue_is_waited_for(queue: Any) -> None:
    array = np.ones(1 << 20, dtype=np.float32)
    mem = buffer(queue, array)
    kernel = cl.Kernel(cl.Program(queue.context, DOUBLE).build(), "twice")
    for _ in range(3):
        kernel(queue, array.shape, None, mem, np.uint32(0))
    tensor = xd.from_opencl(mem, shape=array.shape, dtype="float32", queue=queue)
    assert set(np.asarray(tensor.to("cpu")).tolist()) == {8.0}


def test_memory_outlives_work_of_ones_own_and_what_comes_later_waits_for_it(queue: Any) -> None:
    mine = cl.CommandQueue(queue.context)
    stream = xd.Stream(OPENCL, native=mine)
    kernel = cl.Kernel(cl.Program(queue.context, DOUBLE).build(), "twice")
    array = np.ones(1 << 16, dtype=np.float32)
    tensor, kept = xd.from_opencl(buffer(queue, array), shape=array.size, dtype="float32"), array.ctypes.data
    alias = xd.asarray(array).to(OPENCL)
    for _ in range(2):
        tensor.wait_to_write(stream)
        gate = cl.UserEvent(queue.context)
        cl.enqueue_barrier(mine, wait_for=[gate])
        kernel(mine, array.shape, None, cl.MemoryObject.from_int_ptr(tensor.cl_mem, retain=True), np.uint32(0))
        tensor.written_on(stream)
        alias.wait_to_read(stream)
        alias.used_on(stream)
        mine.flush()
        threading.Timer(0.05, lambda: gate.set_status(cl.command_execution_status.COMPLETE)).start()
        # Waits: an assignment is done when it returns.
        tensor[0] = tensor[0].item() + 1
    assert tensor[:2].tolist() == [7, 4] and kept == array.ctypes.data
    watched = weakref.finalize(array, lambda: None)
    gate = cl.UserEvent(queue.context)
    cl.enqueue_barrier(mine, wait_for=[gate])
    alias.used_on(stream)
    del alias, array
    gc.collect()
    assert watched.alive, "the work may still read it"
    gate.set_status(cl.command_execution_status.COMPLETE)
    xd.wait_for_releases(60)
    gc.collect()
    assert not watched.alive


def test_a_kernel_of_pyopencl_works_on_a_tensor_of_its_context(queue: Any) -> None:
    mem = buffer(queue, np.arange(8, dtype=np.float32))
    tensor = xd.from_opencl(mem, shape=8, dtype="float32")
    kernel = cl.Kernel(cl.Program(queue.context, DOUBLE).build(), "twice")
    part = tensor[4:]
    shared = cl.MemoryObject.from_int_ptr(part.cl_mem, retain=True)
    kernel(queue, (4,), None, shared, np.uint32(part.byte_offset // 4)).wait()
    assert tensor.tolist() == [0, 1, 2, 3, 8, 10, 12, 14]


def test_a_handle_of_ours_comes_back_as_the_memory_it_is() -> None:
    tensor = xd.full((4,), 3, device=OPENCL)
    again = xd.from_opencl(tensor.cl_mem, shape=4, dtype="int64")
    again[0] = 5
    assert tensor.tolist() == [5, 3, 3, 3]


def test_a_tensor_that_leaves_the_buffer_is_refused_and_the_buffer_is_given_back(
    queue: Any
) -> None:
    mem = buffer(queue, np.arange(4, dtype=np.float32))
    before = mem.reference_count
    for shape, offset in [((5,), 0), ((4,), 4), ((1,), 16), ((1 << 61,), 0)]:
        with pytest.raises((BufferError, ValueError)):
            xd.from_opencl(mem, shape=shape, dtype="float32", offset=offset)
    gc.collect()
    assert mem.reference_count == before
    assert xd.from_opencl(mem, shape=(0,), dtype="float32").tolist() == []


def test_fine_grained_svm_is_shared(queue: Any) -> None:
    try:
        array = cl.fsvm_empty(queue.context, (8,), np.float32)
    except cl.Error as error:
        pytest.skip(f"skipped: no fine-grained SVM: {error}")
    array[:] = 4
    tensor = xd.from_opencl(cl.SVM(array), shape=(8,), dtype="float32")
    assert tensor.device.type == "opencl" and tensor.tolist() == [4] * 8
    tensor.fill(6)
    tensor.synchronize()
    assert tensor.to("cpu").tolist() == [6] * 8
    with pytest.raises(ValueError, match="bytes"):
        xd.from_opencl(cl.SVM(array), shape=(9,), dtype="float32")


def test_a_queue_of_pyopencl_is_a_stream(queue: Any) -> None:
    stream = xd.Stream(OPENCL, native=queue)
    assert stream.native_handle == queue.int_ptr
    mem = buffer(queue, np.arange(1 << 18, dtype=np.int32))
    tensor = xd.from_opencl(mem, shape=1 << 18, dtype="int32", queue=stream)
    tensor.fill(3, stream=stream)
    event = stream.record()
    event.synchronize()
    assert event.query() and set(tensor.tolist()) == {3}
    there = xd.ones(4).to(OPENCL, stream=queue, copy=True)
    assert there.to("cpu", stream=queue, copy=True).tolist() == [1] * 4
    with stream:
        assert there.to("cpu", non_blocking=True).tolist() == [1] * 4


def test_read_only_host_memory_is_an_object_that_refuses_writes_of_others() -> None:
    content = np.arange(4096, dtype=np.uint8)
    content.flags.writeable = False
    tensor = xd.from_dlpack(content).to(OPENCL, copy=False)
    assert tensor.readonly
    shared = cl.MemoryObject.from_int_ptr(tensor.cl_mem, retain=True)
    only = cl.mem_flags.READ_ONLY | cl.mem_flags.HOST_READ_ONLY
    assert shared.flags & only == only
    ours = cl.CommandQueue.from_int_ptr(xd.current_stream(OPENCL).native_handle, retain=True)
    with pytest.raises(cl.Error, match="INVALID_OPERATION"):
        cl.enqueue_copy(ours, shared, np.zeros(4096, np.uint8))
    assert tensor.tolist() == content.tolist() == (np.arange(4096) % 256).tolist()
    with pytest.raises(ValueError, match="read-only"):
        tensor.fill(0)
    writable = xd.from_dlpack(content.copy()).to(OPENCL, copy=False)
    shared = cl.MemoryObject.from_int_ptr(writable.cl_mem, retain=True)
    assert shared.flags & only == 0 and not writable.readonly


def test_a_buffer_that_the_host_may_only_read_is_read_only(queue: Any) -> None:
    flags = cl.mem_flags.HOST_READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    mem = cl.Buffer(queue.context, flags, hostbuf=np.arange(4, dtype=np.float32))
    tensor = xd.from_opencl(mem, shape=4, dtype="float32")
    assert tensor.readonly and tensor.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 7
    # What kernels only read, the host may write.
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    mem = cl.Buffer(queue.context, flags, hostbuf=np.arange(4, dtype=np.float32))
    tensor = xd.from_opencl(mem, shape=4, dtype="float32")
    tensor[0] = 7
    assert tensor.tolist() == [7, 1, 2, 3]


def test_memory_without_a_handle_has_none() -> None:
    assert not hasattr(xd.ones(3), "cl_mem") and not hasattr(xd.zeros(0, device=OPENCL), "cl_mem")


def asked_with(tensor: xd.Tensor, queue: Any) -> Any:
    capsule = tensor.__dlpack__(stream=queue, max_version=(1, 3))
    return handmade.struct_in(capsule).tensor.data


def test_consumers_may_name_every_queue_that_was_made_or_given_here(queue: Any) -> None:
    tensor = xd.ones(4).to(OPENCL, copy=True)
    made = xd.Stream(OPENCL)
    given = xd.Stream(OPENCL, native=queue)
    for stream in (xd.current_stream(OPENCL), made, given):
        assert asked_with(tensor, stream.native_handle) == tensor.cl_mem
    assert asked_with(tensor, -1) == asked_with(tensor, None) == tensor.cl_mem


def test_a_queue_given_with_memory_is_known_while_its_tensor_lives(queue: Any) -> None:
    mine = cl.CommandQueue(queue.context)
    mem = buffer(queue, np.arange(4, dtype=np.float32))
    tensor = xd.from_opencl(mem, shape=4, dtype="float32", queue=mine)
    assert asked_with(tensor, mine.int_ptr) == mem.int_ptr
    del tensor
    gc.collect()
    # The consumer's queue was given work, so a release behind it holds the stream a moment longer.
    xd.wait_for_releases(timeout=60)
    with pytest.raises(ValueError, match="made or given here"):
        asked_with(xd.ones(4, device=OPENCL), mine.int_ptr)


@pytest.mark.parametrize("stream", [1, 2, 4096, -2, "a buffer", "a queue of nobody"])
def test_what_is_no_queue_of_ours_is_refused(queue: Any, stream: Any) -> None:
    mem, foreign = buffer(queue, np.zeros(4, np.float32)), cl.CommandQueue(queue.context)
    stream = {"a buffer": mem.int_ptr, "a queue of nobody": foreign.int_ptr}.get(stream, stream)
    with pytest.raises(ValueError, match="made or given here"):
        asked_with(xd.ones(4, device=OPENCL), stream)


@pytest.mark.parametrize("whose", ["ours", "the context's own", "another context's"])
@pytest.mark.parametrize("part", [slice(None), slice(None, None, 3)])
def test_memory_of_a_context_is_copied_on_any_stream(queue: Any, whose: str, part: Any) -> None:
    array = np.arange(1000, dtype=np.float32)
    tensor = xd.from_opencl(buffer(queue, array), shape=1000, dtype="float32")[part]
    context = cl.Context(queue.context.devices)
    native = {"the context's own": queue, "another context's": cl.CommandQueue(context)}.get(whose)
    stream = xd.Stream(OPENCL) if native is None else xd.Stream(OPENCL, native=native)
    for device in ("cpu", OPENCL):
        copied = tensor.to(device, stream=stream, copy=True)
        stream.synchronize()
        assert copied.tolist() == array[part].tolist()
    tensor.fill(7, stream=stream)
    stream.synchronize()
    assert set(tensor.tolist()) == {7}


def test_a_validated_plugin_may_use_all_of_a_buffer_of_others(child: Child) -> None:
    program = """
        import os
        os.environ["CROSSDOCK_LAYERS"] = "validate"
        import crossdock as xd, numpy as np, pyopencl as cl
        name = next(d.name.strip() for d in xd.devices() if d.type == "opencl")
        every = [d for platform in cl.get_platforms() for d in platform.get_devices()]
        context = cl.Context([d for d in every if d.name.strip() == name][:1])
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        mem = cl.Buffer(context, flags, hostbuf=np.arange(6, dtype=np.float32))
        print(xd.from_opencl(mem, shape=6, dtype="float32").tolist())
    """
    run = child(textwrap.dedent(program))
    assert run.stdout == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n", run.stderr


def test_what_is_no_buffer_is_refused(queue: Any) -> None:
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    try:
        image = cl.create_image(queue.context, cl.mem_flags.READ_WRITE, form, (2, 2))
    except cl.Error as error:
        pytest.skip(f"skipped: no images: {error}")
    with pytest.raises(xd.UnsupportedDeviceError, match="image"):
        xd.from_opencl(image, shape=4, dtype="float32")


@pytest.mark.parametrize("wrong", [object(), None, True, np.zeros(3)])
def test_what_is_no_memory_of_opencl_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="no memory of OpenCL"):
        xd.from_opencl(wrong, shape=1, dtype="float32")
    with pytest.raises(ValueError, match="before"):
        xd.from_opencl(wrong, shape=1, dtype="float32", offset=-4)


def test_numpy_is_told_how_the_host_gets_a_tensor(queue: Any) -> None:
    tensor = xd.from_opencl(buffer(queue, np.arange(3)), shape=(3,), dtype=np.int64)
    with pytest.raises(TypeError, match=r'bring it to the host first with `\.to\("cpu"\)`$'):
        np.asarray(tensor)
    assert np.asarray(tensor.to("cpu")).tolist() == [0, 1, 2]


def test_a_wait_ends_with_its_limit_as_python_has_it(queue: Any) -> None:
    gate = cl.UserEvent(queue.context)
    cl.enqueue_barrier(queue, [gate])
    stream = xd.Stream(OPENCL, native=queue)
    event = stream.record()
    try:
        for wait in (stream.synchronize, event.synchronize):
            with pytest.raises(TimeoutError) as caught:
                wait(timeout=0.01)
            assert isinstance(caught.value, xd.DeviceTimeoutError)
            assert isinstance(caught.value, xd.DeviceError)
            assert (caught.value.code, caught.value.plugin) == (16, "opencl")
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    stream.synchronize(timeout=60)
    assert event.query()


def test_a_queue_that_measures_no_times_says_so(queue: Any) -> None:
    """The fixture's queue was made without `PROFILING_ENABLE`."""
    stream = xd.Stream(OPENCL, native=queue)
    begin, end = stream.record(), stream.record()
    stream.synchronize()
    with pytest.raises(xd.DeviceError, match="made without CL_QUEUE_PROFILING_ENABLE"):
        end.elapsed_since(begin)


def test_a_stream_of_ours_is_named_by_its_handle(queue: Any) -> None:
    tensor, stream = xd.ones(4, device=OPENCL), xd.Stream(OPENCL)
    wrong: Any = stream
    with pytest.raises(TypeError, match=r"give its `.native_handle`"):
        tensor.__dlpack__(stream=wrong, max_version=(1, 3))
    tensor.__dlpack__(stream=stream.native_handle, max_version=(1, 3))
    with pytest.raises(TypeError, match="DLPack has no streams for this device"):
        xd.ones(4).__dlpack__(stream=wrong, max_version=(1, 3))


def test_what_pyopencl_has_hears_of_from_opencl() -> None:
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    arrays = pytest.importorskip("pyopencl.array")
    for theirs in (arrays.zeros(queue, 4, np.float32), cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)):
        for take, kind in ((xd.asarray, TypeError), (xd.from_dlpack, AttributeError)):
            wrong: Any = theirs
            with pytest.raises(kind, match=r"`xd\.from_opencl` takes memory of OpenCL$"):
                take(wrong)


@pytest.mark.parametrize("name", ["SIGABRT", "SIGQUIT", "SIGTERM"])
def test_a_signal_ends_the_process_where_a_driver_would_take_it(child: Child, name: str) -> None:
    """LLVM's handlers take the first that comes, and the process goes on."""
    run = child(f"""
import resource, signal
import crossdock as xd

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
# As it is without faulthandler, or a parent that ignores it.
signal.signal(signal.{name}, signal.SIG_DFL)
xd.zeros(3, device="opencl:0").tolist()
signal.raise_signal(signal.{name})
print("goes on")
""")
    assert (run.stdout, run.returncode) == ("", -getattr(signal, name)), run.stderr


def test_signals_stay_the_scripts_where_a_driver_would_take_them(child: Child) -> None:
    """LLVM, which PoCL compiles with, handles what it thinks ends a process."""
    run = child("""
import os, signal
import crossdock as xd

hits = []
signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
xd.zeros(3, device="opencl:0").tolist()
os.kill(os.getpid(), signal.SIGUSR1)
assert hits == [1]
""")
    assert run.returncode == 0, run.stderr
