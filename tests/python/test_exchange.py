"""Tensors between crossdock and NumPy, by DLPack, and what is said of other objects."""

from typing import Any

import crossdock as xd
import numpy as np
import pytest


def test_an_import_shares_the_memory_of_a_numpy_array() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = xd.from_dlpack(array)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 3), (3, 1), xd.float32)
    back = np.from_dlpack(tensor)
    back[0, 0] = 7
    assert array[0, 0] == 7


def test_a_capsule_is_taken_once() -> None:
    capsule = np.zeros(3).__dlpack__(max_version=(1, 3))
    xd.from_dlpack(capsule)
    with pytest.raises(BufferError, match="taken before"):
        xd.from_dlpack(capsule)


def test_an_unknown_device_is_a_buffer_error_and_a_type_error() -> None:
    with pytest.raises(xd.UnsupportedDeviceError) as caught:
        xd.device("cuda:7")
    assert isinstance(caught.value, BufferError) and isinstance(caught.value, TypeError)
    assert "cpu:0" in str(caught.value)


def test_a_tensor_goes_to_every_device_and_back() -> None:
    array = np.arange(100, dtype=np.int64)
    for device in xd.devices():
        there = xd.from_dlpack(array).to(device)
        assert there.device == device
        assert np.array_equal(np.from_dlpack(there.to("cpu")), array)


def test_explain_says_how_an_array_becomes_a_tensor() -> None:
    array = np.arange(3)
    with pytest.raises(TypeError, match=r"not ndarray: `xd\.asarray\(x\)`"):
        xd.explain(array, "cpu")  # type: ignore[arg-type]
    assert xd.explain(xd.asarray(array), "cpu").kind == "alias"
    with pytest.raises(TypeError, match="a device is a Device, .*, not numpy.ndarray"):
        xd.explain(xd.asarray(array), array)  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [bytearray(4), [1, 2], 3, memoryview(b"12")])
def test_what_speaks_another_protocol_is_sent_to_asarray(x: Any) -> None:
    for options in ({}, {"copy": True}, {"device": "cpu"}):
        with pytest.raises(AttributeError, match=r"no __dlpack_device__.*`xd\.asarray\(x\)`"):
            xd.from_dlpack(x, **options)
    assert xd.asarray(x).size > 0


def test_what_a_producer_raises_for_its_device_arrives_unchanged() -> None:
    class Broken:
        def __dlpack__(self, **_options: Any) -> Any:
            raise RuntimeError("not reached")

        def __dlpack_device__(self) -> tuple[int, int]:
            raise AttributeError("its own words")

    with pytest.raises(AttributeError, match="^its own words$"):
        xd.from_dlpack(Broken())
