"""What is made of a tensor's own bytes is the same memory: the order of its work and its failures hold for both."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import crossdock as xd
import pytest
from held import Held


def pickled_out_of_band(tensor: xd.Tensor) -> xd.Tensor:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    again: xd.Tensor = pickle.loads(data, buffers=buffers)
    return again


VIEWS: dict[str, Callable[[xd.Tensor], xd.Tensor]] = {
    "slice": lambda tensor: tensor[:],
    "raw": xd.Tensor.raw,
    "raw of raw": lambda tensor: tensor.raw()[4:].raw(),
    "memoryview": lambda tensor: xd.asarray(memoryview(tensor)),
    "part of a memoryview": lambda tensor: xd.asarray(memoryview(tensor)[1:][::-2]),
    "cast memoryview": lambda tensor: xd.asarray(memoryview(tensor).cast("B")),
    "memoryview of a memoryview": lambda tensor: xd.asarray(memoryview(memoryview(tensor[1:]))),
    "read-only memoryview": lambda tensor: xd.asarray(memoryview(tensor).toreadonly()),
    "PickleBuffer": lambda tensor: xd.asarray(pickle.PickleBuffer(tensor)),
    "raw PickleBuffer": lambda tensor: xd.asarray(pickle.PickleBuffer(tensor.raw()).raw()),
    "pickle": pickled_out_of_band,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_write_waits_for_a_copy_of_a_view_of_the_bytes(view: Callable[[xd.Tensor], xd.Tensor]) -> None:
    tensor = xd.asarray([1, 2, 3, 4], dtype="int32")
    viewed, other = view(tensor), xd.Stream("cpu")
    before = viewed.tolist()
    held = Held()
    copied = viewed.to("cpu", stream=held.stream, copy=True)
    tensor.fill(9, stream=other)
    held.let_go()
    held.stream.synchronize()
    other.synchronize()
    assert copied.tolist() == before != viewed.tolist()
    assert tensor.tolist() == [9, 9, 9, 9]


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_of_the_bytes_has_the_failure_of_their_work(view: Callable[[xd.Tensor], xd.Tensor]) -> None:
    tensor, failing = xd.asarray([1, 2, 3, 4], dtype="int32"), Held()
    viewed = view(tensor)
    tensor.fill(9, stream=failing.stream)
    failing.let_go(status=22)
    with pytest.raises(xd.DeviceError):
        viewed.tolist()
    with pytest.raises(xd.DeviceError):
        failing.stream.synchronize()
    tensor.fill(5)
    assert set(viewed.copy().raw().tolist()) <= {5, 0} and 5 in viewed.copy().raw().tolist()


def test_a_view_of_the_bytes_keeps_what_may_not_be_written() -> None:
    tensor = xd.asarray([1, 2, 3, 4], dtype="int32")
    locked = xd.asarray(memoryview(tensor).toreadonly())
    assert locked.readonly and locked.raw().readonly and xd.asarray(memoryview(locked)).readonly
    assert not tensor.readonly and not tensor.raw().readonly
    with pytest.raises(ValueError, match="read-only"):
        locked.fill(1)
    tensor[0] = 7
    assert locked.tolist() == [7, 2, 3, 4]


def test_a_view_of_the_bytes_keeps_the_memory() -> None:
    tensor = xd.asarray([1, 2, 3, 4], dtype="int32")
    last = xd.asarray(memoryview(tensor)[3:])
    del tensor
    assert last.tolist() == [4]
    assert xd.asarray(memoryview(xd.empty((0, 3)))).shape == (0, 3)
