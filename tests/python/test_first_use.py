"""A tensor of the host's that was taken and not used yet: its owner, its values, and its first use."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import crossdock as xd
import numpy as np
import pytest
import structs
from conftest import Child
from handmade import Forged

USES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda tensor: None,
    "shape": lambda tensor: tensor.shape,
    "repr": repr,
    "values": lambda tensor: tensor.tolist(),
    "buffer": lambda tensor: memoryview(tensor).nbytes,
    "export": lambda tensor: tensor.__dlpack__(max_version=(1, 3)),
    "shared": xd.from_dlpack,
    "weakref": weakref.ref,
}


@pytest.mark.parametrize("version", [(1, 3), None])
@pytest.mark.parametrize("use", USES)
def test_the_owner_is_released_once_whatever_was_done(
    use: str, version: tuple[int, int] | None
) -> None:
    forged = Forged(version=version, dtype=(1, 8, 1))
    tensor = xd.from_dlpack(forged.capsule())
    if use == "buffer" and version is None:
        USES["shape"](tensor)
    else:
        USES[use](tensor)
    gc.collect()
    assert forged.deleted == 0
    del tensor
    gc.collect()
    assert forged.deleted == 1


@pytest.mark.parametrize("version", [(1, 3), None])
def test_what_was_made_of_it_keeps_the_owner(version: tuple[int, int] | None) -> None:
    forged = Forged(version=version)
    tensor = xd.from_dlpack(forged.capsule())
    row, again = tensor[0], xd.from_dlpack(tensor)
    del tensor, again
    gc.collect()
    assert forged.deleted == 0 and row.shape == (3,)
    del row
    gc.collect()
    assert forged.deleted == 1


def test_it_is_what_it_was_when_it_was_taken() -> None:
    """Rule 30: what the producer does to its struct and arrays afterwards changes nothing."""
    for shape in ((), (1,), (2, 3), (2, 1, 3), (1, 2, 3, 4), (2, 1, 1, 2, 1)):
        forged = Forged(shape)
        tensor = xd.from_dlpack(forged.capsule())
        forged._shape[:] = [1 << 40] * len(forged._shape)
        forged._strides[:] = [1 << 40] * len(forged._strides)
        forged.managed.tensor.shape = structs.NUMBERS()
        forged.managed.tensor.data = 64
        forged.managed.tensor.ndim = -1
        assert tensor.shape == shape
        assert tensor.data_ptr() == forged.address
        assert tensor.contiguous


def test_what_cannot_be_written_stays_so() -> None:
    values = np.zeros(4)
    assert not xd.from_dlpack(values).readonly
    values.flags.writeable = False
    assert xd.from_dlpack(values).readonly
    assert xd.from_dlpack(Forged(version=None).capsule()).readonly


def used_by_threads(tensor: Any, count: int) -> list[tuple[int, Any]]:
    """What threads see that begin at the same time."""
    start = threading.Barrier(count)
    seen: list[tuple[int, Any]] = []

    def use() -> None:
        start.wait()
        seen.append((tensor.data_ptr(), xd.from_dlpack(tensor).shape))

    threads = [threading.Thread(target=use) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def test_threads_that_use_it_first_at_the_same_time_see_one_tensor() -> None:
    for _ in range(200):
        forged = Forged(dtype=(1, 8, 1))
        tensor = xd.from_dlpack(forged.capsule())
        assert used_by_threads(tensor, 4) == [(forged.address, (2, 3))] * 4
        del tensor
        gc.collect()
        assert forged.deleted == 1


@pytest.mark.ends
def test_a_child_process_can_use_what_its_parent_took(child: Child) -> None:
    run = child(
        """
import os, sys
import crossdock as xd, numpy as np
tensor = xd.from_dlpack(np.arange(4))
pid = os.fork()
if not pid:
    sys.exit(tensor.tolist() != [0, 1, 2, 3])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    )
    assert (run.returncode, run.stdout) == (0, "0\n"), run.stderr


def test_memory_that_a_plugin_knows_is_no_such_array() -> None:
    """Its owner is found at once, as for every tensor that is not as most are."""
    ours = xd.asarray(np.arange(6.0)).to("cpu:0", copy=True)
    inside = Forged((6,), dtype=(2, 64, 1), data=ours.data_ptr())
    beyond = Forged((7,), dtype=(2, 64, 1), data=ours.data_ptr() + ours.nbytes - 48)
    assert xd.from_dlpack(inside.capsule()).tolist() == ours.tolist()
    with pytest.raises(BufferError, match="allocation"):
        xd.from_dlpack(beyond.capsule())
    assert ctypes.c_double.from_address(ours.data_ptr() + 8).value == 1.0
