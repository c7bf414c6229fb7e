"""Errors say what to do, and a device is copied and pickled by its name."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import crossdock as xd
import numpy as np
import pytest

CPU = xd.device("cpu")
OPENCL: Any = next((device for device in xd.devices() if device.type == "opencl"), None)


def vector() -> Any:
    return xd.asarray([1, 2, 3], dtype="float32")


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_a_device_is_copied_and_pickled_by_its_name(device: xd.Device) -> None:
    assert copy.deepcopy(device) == copy.copy(device) == device
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps({"on": device}, protocol)) == {"on": device}


def test_what_takes_an_event_says_how_one_is_made() -> None:
    stream: Any = xd.Stream(CPU)
    for function, call in [("wait", stream.wait), ("elapsed_since", stream.record().elapsed_since)]:
        for wrong in (stream, 1, None):
            with pytest.raises(TypeError, match=rf"{function} takes a crossdock.Event.*stream\.record\(\)"):
                call(wrong)


def test_a_stream_of_ours_is_not_wrapped() -> None:
    with pytest.raises(TypeError, match="crossdock stream already: use it as it is"):
        xd.Stream(CPU, native=xd.Stream(CPU))


def test_what_is_no_stream_hears_of_ours() -> None:
    wrong: Any = "default"
    for call in (lambda: vector().to("cpu", stream=wrong), lambda: xd.Stream(CPU, native=wrong)):
        with pytest.raises(TypeError, match=r"str is no stream: give a crossdock\.Stream, "):
            call()


def test_the_name_of_a_class_that_is_no_device_is_whole() -> None:
    Framework: Any = type("device", (), {"__module__": "framework"})
    for wrong, name in [(Framework(), r"framework\.device"), (1.5, "float")]:
        with pytest.raises(TypeError, match=rf"not {name}$"):
            vector().to(wrong)


def test_a_number_that_is_no_memory_of_opencl_hears_what_is() -> None:
    if OPENCL is None:
        pytest.skip("there is no OpenCL device")
    with pytest.raises(BufferError, match=r"give the object itself \(a pyopencl\.Buffer\)"):
        xd.from_opencl(1234, shape=3, dtype="float32")


def test_a_file_of_pytorchs_hears_who_reads_it(tmp_path: Path) -> None:
    for ending in (".pt", ".pth", ".bin", ".ckpt"):
        with pytest.raises(ValueError, match=r"npz and \.safetensors: `torch\.load` reads PyTorch's own"):
            xd.load(tmp_path / f"model{ending}")
    with pytest.raises(ValueError, match=r"npz and \.safetensors$"):
        xd.load(tmp_path / "model.txt")


def test_a_tensor_is_no_address() -> None:
    info: Any = xd.pointer_info
    with pytest.raises(TypeError, match=r"pass `t\.data_ptr\(\)`"):
        info(vector())
    with pytest.raises(TypeError, match="'str' object"):
        info("1")
    assert info(vector().data_ptr()).kind is not None


def test_masks_and_lists_of_indexes_are_numpys() -> None:
    t = vector()
    for key in ([0, 1], np.array([True, False, True]), t, True, 1.0):
        with pytest.raises(IndexError, match=r"take `t\.numpy\(\)\[\.\.\]`"):
            t[key]


def test_a_tensor_of_several_elements_is_no_bool() -> None:
    with pytest.raises(TypeError, match=r"this one has 1 axis: ask `t is not None`, `t\.size` or"):
        bool(vector())
    with pytest.raises(TypeError, match=r"this one has 2 axes: take `\.item\(\)`"):
        float(vector().reshape(3, 1))
    with pytest.raises(IndexError, match="2 indexes for a tensor with 1 axis"):
        vector()[0, 0]


@pytest.mark.parametrize("name", ["gpu", "gpu:1", "mps", "cuda"])
def test_a_device_that_is_not_here_is_one_class_of_error(name: str) -> None:
    if name in {device.type for device in xd.devices()}:
        pytest.skip("skipped: it is here")
    advice = "the devices here are cpu:0.*run `crossdock devices`"
    for call in (
        lambda: xd.device(name),
        lambda: vector().to(name),
        lambda: xd.ones(1, device=name),
        lambda: xd.asarray([1], device=name),
        lambda: xd.from_dlpack(np.zeros(1), device=name),
        lambda: xd.from_dlpack(vector(), device=name, copy=False),
    ):
        with pytest.raises(xd.UnsupportedDeviceError, match=advice) as caught:
            call()
        # As NumPy's `from_dlpack(device=)`.
        assert isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match="is not TYPE or TYPE:ID"):
        xd.device("cpu:x")


def test_a_complex_number_is_no_real_one() -> None:
    t = vector()
    for dtype in ("float32", "bfloat16", "int8", "float4_e2m1fn"):
        with pytest.raises(TypeError, match=f"a complex number is no {dtype}"):
            xd.asarray([1, 1j], dtype=dtype)
    with pytest.raises(TypeError, match="a complex number is no float32"):
        t[0] = 1j
    assert t.tolist() == [1, 2, 3]


def test_a_dtype_that_a_file_lacks_is_told_with_its_tensor(tmp_path: Path) -> None:
    small = xd.ones(2, dtype="bfloat16")
    with pytest.raises(ValueError, match="`a`: .npz files have no dtype bfloat16: save it as .safetensors"):
        xd.save(tmp_path / "x.npz", {"a": small})
    with pytest.raises(ValueError, match="^.npy files have no dtype bfloat16: save it as .safetensors"):
        xd.save(tmp_path / "x.npy", small)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_tensor_is_as_read_only_as_it_was(protocol: int) -> None:
    frozen = np.arange(6.0).reshape(2, 3)
    frozen.flags.writeable = False
    expanded = np.broadcast_to(np.float32(1), (3,))
    for source, readonly in [
        (expanded, True), (frozen, True), (frozen.T, True), (b"abc", True), (bytearray(3), False),
    ]:  # fmt: skip
        tensor = xd.asarray(source)
        again = pickle.loads(pickle.dumps(tensor, protocol))
        assert tensor.readonly == again.readonly == readonly
        assert again.tolist() == tensor.tolist()


def test_bytes_out_of_band_are_read_only_as_the_tensor_was() -> None:
    tensor = xd.asarray(np.broadcast_to(np.float32(1), (3,)))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    for given in (buffers, [bytearray(buffers[0].raw())]):
        assert pickle.loads(data, buffers=given).readonly


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
def test_an_array_of_pyopencl_is_told_how_it_comes_in() -> None:
    array = pytest.importorskip("pyopencl.array")
    cl: Any = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue.from_int_ptr(xd.current_stream(OPENCL).native_handle, retain=True)
    a = array.arange(queue, 6, dtype=np.float32)[2:]
    with pytest.raises(TypeError, match=r"give `a\.base_data, .*offset=a\.offset, queue=a\.queue`"):
        xd.from_opencl(a, shape=a.shape, dtype=a.dtype)
    tensor = xd.from_opencl(a.base_data, shape=a.shape, dtype=a.dtype, offset=a.offset, queue=a.queue)
    assert tensor.tolist() == [2, 3, 4, 5]
    stream: Any = xd.Stream(OPENCL)
    with pytest.raises(TypeError, match=r"xd\.Stream\(device, native=queue\)\.record\(\)"):
        stream.wait(queue)


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
def test_a_child_of_a_fork_is_told_of_spawn_once() -> None:
    xd.ones(1, device=OPENCL)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            xd.device(str(OPENCL))
        except BaseException as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with open(read) as told:
        text = told.read()
    os.waitpid(child, 0)
    assert text.count("spawn") == 1 and "name the device anew" not in text, text


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
def test_a_mapped_buffer_is_told_with_what_unmaps_it() -> None:
    cl: Any = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue.from_int_ptr(xd.current_stream(OPENCL).native_handle, retain=True)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=np.arange(4, dtype=np.float32))
    tensor = xd.from_opencl(memory, shape=4, dtype="float32", queue=queue)
    view = tensor.to("cpu")
    if view.data_ptr() == 0 or xd.explain(tensor, "cpu").kind != "alias":
        pytest.skip("skipped: the driver maps no memory")
    with pytest.raises(xd.DeviceError, match=r"drop the view that `t\.to\("):
        tensor.fill(2)
    del view
    tensor.fill(2)
    assert tensor.to("cpu", copy=True).tolist() == [2] * 4


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
def test_the_device_of_a_plugin_that_was_loaded_again_is_named_anew() -> None:
    program = textwrap.dedent(
        """
        import crossdock as xd
        old = next(device for device in xd.devices() if device.type == "opencl")
        plugin = next(plugin for plugin in xd.plugins() if plugin.name == "opencl")
        plugin.retire()
        xd.load_plugin(plugin.path)
        try:
            xd.ones(2, device=old)
        except xd.DeviceError as error:
            print(error)
        print(xd.ones(2, device=str(old)).tolist())
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told, content = ended.stdout.splitlines()
    assert "name the device anew" in told and content == "[1.0, 1.0]", ended.stdout + ended.stderr
