"""Host memory that is registered with a device: for a block, or until it is closed."""

from __future__ import annotations

import gc
import weakref

import crossdock as xd
import numpy as np
import pytest

DEVICES = [str(device) for device in xd.devices() if "register" in device.capabilities]


@pytest.mark.parametrize("device", DEVICES)
def test_memory_is_registered_for_a_block_and_can_be_registered_again(device: str) -> None:
    array = np.arange(2048, dtype="float32")
    tensor = xd.from_dlpack(array)
    for _ in range(2):
        with tensor.register(device) as registered:
            assert isinstance(registered, xd.Registration) and not registered.closed
            assert str(tensor.device) == "cpu:0" and tensor.data_ptr() == array.ctypes.data
            with pytest.raises(xd.DeviceError, match=f"`{device}` knows a part of this memory"):
                tensor[8:].register(device)
            assert tensor.to(device, copy=True).to("cpu").tolist() == array.tolist()
        assert registered.closed
        registered.close()


@pytest.mark.parametrize("device", DEVICES)
def test_a_registration_keeps_the_memory_until_it_is_closed(device: str) -> None:
    class Array(np.ndarray):
        """One that can be referred to weakly, whatever NumPy's own can."""

    array = np.ones(4096, dtype="uint8").view(Array)
    kept = weakref.ref(array)
    registered = xd.from_dlpack(array).register(device)
    del array
    gc.collect()
    assert kept() is not None
    registered.close()
    xd.wait_for_releases(20)
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("device", DEVICES)
def test_a_registration_that_is_closed_during_a_copy_ends_behind_it(device: str) -> None:
    array = np.arange(1 << 20, dtype="uint8")
    tensor, stream = xd.from_dlpack(array), xd.Stream(device)
    with tensor.register(device):
        moved = tensor.to(device, stream=stream, copy=True)
    xd.wait_for_releases(20)
    tensor.register(device).close()
    assert bytes(memoryview(moved.to("cpu"))) == array.tobytes()


def test_memory_that_is_read_only_is_registered() -> None:
    tensor = xd.asarray(b"only to be read")
    assert tensor.readonly
    tensor.register("cpu").close()


@pytest.mark.usefixtures("accelerators")
def test_what_cannot_be_registered_says_why() -> None:
    with pytest.raises(xd.DeviceError, match="`cuda:0` locks no host memory"):
        xd.zeros(4).register("cuda:0")
    with pytest.raises(xd.DeviceError, match="does not reach this memory of `cuda:0`"):
        xd.empty(4, device="cuda:0").register("cpu")
    with pytest.raises(TypeError, match="a device is"):
        xd.zeros(4).register(7)  # type: ignore[arg-type]
