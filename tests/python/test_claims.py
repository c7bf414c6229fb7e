"""Memory that a producer calls the host's, and of which a plugin has to ask its driver.

The plugin is asked before the memory is first used, once, and not when the tensor is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accelerators import build

import crossdock as xd

DEVICE_ALONE, HOST_TOO = 0, 1


class Driver:
    """The plugin `asks_driver`, which counts how often it is asked."""

    def __init__(self, library: Path) -> None:
        self.plugin = xd.load_plugin(library)
        self._functions = ctypes.CDLL(str(library))
        self._functions.asks_driver_own.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint]

    def count(self) -> int:
        return int(self._functions.asks_driver_count())

    def own(self, array: np.ndarray[Any, Any], what: int = DEVICE_ALONE) -> None:
        """Makes the array's memory that of `ext_dev:0`."""
        self._functions.asks_driver_own(array.ctypes.data, array.nbytes, what)

    def own_nothing(self) -> None:
        self._functions.asks_driver_own(0, 0, 0)


@pytest.fixture(scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    loaded = Driver(build(tmp_path_factory.mktemp("plugins"), "asks_driver"))
    yield loaded
    loaded.plugin.retire()


@pytest.fixture
def driver(_loaded: Driver) -> Iterator[Driver]:
    yield _loaded
    _loaded.own_nothing()


USES: dict[str, Callable[[xd.Tensor], object]] = {
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t[0].item(),
    "numpy": lambda t: t.numpy(),
    "buffer": lambda t: memoryview(t),
    "array interface": lambda t: t.__array_interface__,
    "array": lambda t: np.asarray(t),
    "to another device": lambda t: t.to("ext_dev"),
    "to the same device": lambda t: t.to("cpu"),
    "copy": lambda t: t.to("cpu", copy=True),
    "dlpack": lambda t: t.__dlpack__(),
    "dlpack 1": lambda t: t.__dlpack__(max_version=(1, 3)),
    "NumPy": lambda t: np.from_dlpack(t),
    "fill": lambda t: t.fill(1),
    "assign": lambda t: t.__setitem__(slice(None), 1),
    "assign from": lambda t: xd.zeros(4).__setitem__(slice(None), t),
    "reshape by a copy": lambda t: t.reshape((2, 2), copy=True),
    "a view": lambda t: t[1:].tolist(),
}


def test_an_array_of_numpys_calls_no_driver_when_it_is_taken_and_handed_on(driver: Driver) -> None:
    array, before = np.arange(4.0), driver.count()
    tensor = xd.from_dlpack(array)
    assert (tensor.shape, tensor.dtype, tensor.strides) == ((4,), xd.float64, (1,))
    assert tensor[1:].reshape((3, 1)).data_ptr() == array.ctypes.data + 8
    assert driver.count() == before, "nobody has used it yet"
    assert tensor.tolist() == [0, 1, 2, 3]
    assert driver.count() == before + 1, "once, at the first use"
    np.from_dlpack(tensor), tensor.to("ext_dev"), memoryview(tensor), tensor[1:].tolist()
    assert driver.count() == before + 1


@pytest.mark.parametrize("use", USES)
def test_device_memory_that_is_claimed_as_the_hosts_is_found_out_before(use: str, driver: Driver) -> None:
    array = np.arange(4.0)
    driver.own(array)
    tensor = xd.from_dlpack(array)
    for _ in range(2):
        with pytest.raises(BufferError, match=r"`cpu:0`.*`ext_dev:0`|cpu:0(.|\n)*ext_dev:0"):
            USES[use](tensor)
    assert array.tolist() == [0, 1, 2, 3]
    driver.own_nothing()
    USES[use](tensor)


def test_device_memory_is_found_out_in_what_came_without_dlpack(driver: Driver) -> None:
    array = np.arange(4.0)
    driver.own(array)
    for taken in (xd.asarray(array.data), xd.asarray(array)):
        with pytest.raises(BufferError, match="ext_dev:0"):
            taken.tolist()


def test_memory_of_a_driver_that_the_host_reaches_is_used(driver: Driver) -> None:
    array = np.arange(4.0)
    driver.own(array, HOST_TOO)
    assert xd.from_dlpack(array).tolist() == [0, 1, 2, 3]
