"""Host memory out: buffers, `__array_interface__`, `__array__`, `numpy()`."""

import gc
import subprocess
import sys
import textwrap
import weakref
from typing import Any

import crossdock as xd
import ml_dtypes
import numpy as np
import pytest

testbuffer = pytest.importorskip("_testbuffer")

FLAGS = {
    name: getattr(testbuffer, name)
    for name in (
        "PyBUF_SIMPLE", "PyBUF_WRITABLE", "PyBUF_FORMAT", "PyBUF_ND", "PyBUF_STRIDES",
        "PyBUF_C_CONTIGUOUS", "PyBUF_F_CONTIGUOUS", "PyBUF_ANY_CONTIGUOUS", "PyBUF_INDIRECT",
        "PyBUF_CONTIG", "PyBUF_CONTIG_RO", "PyBUF_STRIDED", "PyBUF_STRIDED_RO",
        "PyBUF_RECORDS", "PyBUF_RECORDS_RO", "PyBUF_FULL", "PyBUF_FULL_RO",
    )
}  # fmt: skip


OPENCL = next((device for device in xd.devices() if device.type == "opencl"), None)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


ARRAYS = {
    "c": np.arange(6, dtype=np.int32).reshape(2, 3),
    "f": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "strided": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
    "reversed": np.arange(6, dtype=np.int32)[::-1],
    "read-only": read_only(np.arange(6, dtype=np.int32)),
    "0-d": np.array(7, dtype=np.int32),
    "empty": np.empty((2, 0, 3), dtype=np.int32),
    "ones": np.arange(3, dtype=np.int32).reshape(1, 3, 1),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("flag", FLAGS)
def test_every_request_is_met_or_refused_as_numpy_does(name: Any, flag: Any) -> None:
    """Rules 121, 123 and 124."""
    array, request = ARRAYS[name], FLAGS[flag]
    tensor = xd.asarray(array)
    try:
        theirs = testbuffer.ndarray(array, getbuf=request)
    except (BufferError, ValueError):
        before = sys.getrefcount(tensor)
        with pytest.raises(BufferError):
            testbuffer.ndarray(tensor, getbuf=request)
        assert sys.getrefcount(tensor) == before
        return
    ours = testbuffer.ndarray(tensor, getbuf=request)
    for fact in ("ndim", "nbytes", "readonly", "itemsize", "shape", "strides"):
        if fact == "ndim" and not request & FLAGS["PyBUF_ND"]:
            # Without a shape NumPy says 0, and bytes and we say 1.
            continue
        if fact == "strides" and (array.size == 0 or 1 in array.shape):
            # Strides of axes with one index or none mean nothing.
            continue
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    if request & FLAGS["PyBUF_FORMAT"] and request & FLAGS["PyBUF_ND"]:
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "dtype",
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128".split(),
)
def test_every_format_is_read_back_as_the_dtype_it_was(dtype: Any) -> None:
    """Rules 29 and 122."""
    array: Any = np.arange(6).reshape(2, 3).astype(dtype)
    for source in (array, memoryview(array)):
        tensor = xd.asarray(source)
        for back in (np.asarray(memoryview(tensor)), tensor.numpy(), np.asarray(tensor)):
            assert back.dtype == array.dtype and np.array_equal(back, array)
            assert back.ctypes.data == array.ctypes.data


def test_dtypes_without_a_format_are_refused_and_have_raw_bytes() -> None:
    """Rule 122."""
    tensor = xd.full((2, 3), 1.5, dtype="bfloat16")
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(tensor)
    assert not hasattr(tensor, "__array_interface__")
    raw = tensor.raw()
    assert raw.nbytes == 12 and raw.data_ptr() == tensor.data_ptr()
    assert np.asarray(raw).view(ml_dtypes.bfloat16).tolist() == [1.5] * 6


def test_a_view_keeps_the_memory_and_a_write_through_it_is_seen() -> None:
    array = np.zeros(4)
    tensor = xd.asarray(array)
    view = memoryview(tensor)
    del tensor
    gc.collect()
    view[2] = 5
    assert array[2] == 5


def test_the_owner_of_an_array_lives_as_long_as_a_view_of_a_view() -> None:
    class Array(np.ndarray):
        pass

    array = np.zeros(8).view(Array)
    alive = weakref.ref(array)
    view = memoryview(xd.asarray(array)[::2])
    del array
    gc.collect()
    assert alive() is not None
    view.release()
    del view
    gc.collect()
    assert alive() is None


def test_numpy_arrays_of_a_tensor_share_its_memory_and_its_right_to_write() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert xd.asarray(array).numpy().flags.writeable
    assert not xd.asarray(bytes(3)).numpy().flags.writeable
    strided = xd.asarray(array.T[::-1])
    assert np.array_equal(strided.numpy(), array.T[::-1])
    strided.numpy()[0, 0] = 50
    assert array[0, 2] == 50


def test_the_keywords_of_array_mean_what_numpy_2_says() -> None:
    """Rule 128."""
    tensor = xd.asarray(np.arange(3))
    shared = np.array(tensor, copy=False)
    assert shared.ctypes.data == tensor.data_ptr()
    assert np.array(tensor, copy=True).ctypes.data != tensor.data_ptr()
    assert tensor.__array__(copy=True).ctypes.data != tensor.data_ptr()
    assert np.asarray(tensor, dtype=np.float32).dtype == np.float32
    assert tensor.__array__(np.float32).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(np.float32, copy=False)
    with pytest.raises(ValueError, match="copy"):
        xd.ones(3, dtype="int4").__array__(copy=False)


def test_the_array_interface_says_where_the_elements_are() -> None:
    """Rule 127."""
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2]
    interface = xd.asarray(array).__array_interface__
    theirs = array.__array_interface__
    for key in ("version", "shape", "typestr", "data", "strides"):
        assert interface[key] == theirs[key]


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
def test_device_memory_is_never_handed_to_the_host_unasked() -> None:
    """Rule 128."""
    tensor = xd.ones(3, device=OPENCL)
    for protocol in ("__array_interface__", "__cuda_array_interface__"):
        assert not hasattr(tensor, protocol)
    attempts: list[Any] = [memoryview, xd.Tensor.raw]
    for attempt in attempts:
        with pytest.raises(BufferError, match="cpu"):
            attempt(tensor)
    attempts = [np.asarray, xd.Tensor.numpy]
    for attempt in attempts:
        with pytest.raises(TypeError, match="cpu"):
            attempt(tensor)
    assert tensor.to("cpu").numpy().tolist() == [1, 1, 1]


def test_an_owner_that_is_left_when_the_interpreter_ends_is_no_error() -> None:
    """Rules 34 and 125."""
    program = textwrap.dedent(
        """
        import builtins, sys, threading
        import crossdock as xd
        builtins.kept = xd.asarray(bytearray(8))
        sys.modules["later"] = [xd.asarray(b"abc")[1:], memoryview(builtins.kept)]
        loop = [xd.asarray(bytearray(4))]
        loop.append(loop)
        threading.local().tensor = xd.asarray(bytearray(4))
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
