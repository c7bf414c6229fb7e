"""Streams of other libraries, on devices whose plugin writes down every copy and wait."""

import itertools
import time
import weakref
from typing import Any

import crossdock as xd
import numpy as np
import pytest
from accelerators import Accelerators

NAMES = ["cuda:1", "rocm:0"]


class Foreign:
    """Another library's stream, by one of the names that such objects use."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


def spellings(handle: Any) -> Any:
    yield handle
    for name in ("ptr", "cuda_stream", "int_ptr"):
        yield Foreign(**{name: handle})
    yield Foreign(__cuda_stream__=lambda: (0, handle))
    yield Foreign(__cuda_stream__=(0, handle))


def copies(accelerators: Accelerators) -> Any:
    return [line for line in accelerators.log() if line.startswith("copy")]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_taken_by_every_name_that_libraries_use(
    accelerators: Accelerators, name: Any
) -> None:
    handle = xd.Stream(name).native_handle
    for native in spellings(handle):
        assert xd.Stream(name, native=native).native_handle == handle


@pytest.mark.parametrize("name", NAMES)
def test_a_move_is_in_the_order_of_the_stream_that_is_given(
    accelerators: Accelerators, name: Any
) -> None:
    own = xd.Stream(name)
    for stream in (own, *spellings(own.native_handle)):
        accelerators.log()
        there = xd.asarray(np.arange(4)).to(name, stream=stream)
        assert copies(accelerators) == [f"copy host>{name} 32 {name}/{own.native_handle}"]
        back = there.to("cpu", stream=stream)
        assert copies(accelerators) == [f"copy {name}>host 32 {name}/{own.native_handle}"]
        assert back.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", NAMES)
def test_a_move_without_blocking_is_on_the_current_stream(
    accelerators: Accelerators, name: Any
) -> None:
    there = xd.ones(4, device=name)
    with xd.Stream(name) as stream:
        accelerators.log()
        there.to("cpu", non_blocking=True)
        assert copies(accelerators) == [f"copy {name}>host 32 {name}/{stream.native_handle}"]
    default = xd.current_stream(name).native_handle
    there.to("cpu", non_blocking=True)
    assert copies(accelerators) == [f"copy {name}>host 32 {name}/{default}"]


@pytest.mark.parametrize("name", NAMES)
def test_an_event_makes_the_current_stream_wait_and_not_the_host(
    accelerators: Accelerators, name: Any
) -> None:
    accelerators.hold()
    first, second = xd.Stream(name), xd.Stream(name)
    event = first.record()
    assert not event.query()
    with second:
        event.wait()
    waits = [line.split()[1] for line in accelerators.log() if line.startswith("wait")]
    assert f"{name}/{second.native_handle}" in waits
    accelerators.hold(False)
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize(("number", "kind"), [(1, "device"), (2, "pinned"), (3, "managed")])
def test_a_pointer_query_tells_kinds_of_memory_apart(
    accelerators: Accelerators, number: Any, kind: Any
) -> None:
    """Rules 116 and 117."""
    address = accelerators.make("cuda:2", number)
    info = xd.pointer_info(address + 8)
    assert (info.kind, str(info.device), info.base) == (kind, "cuda:2", address)
    assert info.managed == (kind == "managed") and info.size == 256


@pytest.mark.parametrize("name", NAMES)
def test_device_memory_has_no_host_protocol(accelerators: Accelerators, name: Any) -> None:
    """Rule 128."""
    tensor = xd.ones(4, device=name)
    assert not hasattr(tensor, "__array_interface__") and not hasattr(tensor, "cl_mem")
    with pytest.raises(TypeError, match="cpu"):
        np.asarray(tensor)
    with pytest.raises(BufferError, match="cpu"):
        memoryview(tensor)
    assert repr(tensor) == f"<crossdock.Tensor shape=(4,) dtype=float64 device='{name}'>"


def test_an_explanation_says_where_somebody_has_to_wait(accelerators: Accelerators) -> None:
    """The plugin has no events that the host completes, and calls no functions of the host."""
    text = str(xd.explain("cpu", "cuda:1", shape=(4,)))
    assert "where a stream of `cuda:1` comes after one of `cpu:0`, the caller waits" in text
    assert "comes after one of `cuda:1`, a thread of the host waits: `accelerators` calls" in text
    route = xd.explain("cuda:0", "cuda:1", shape=(4,))
    assert "waits" not in str(route)
    assert xd.explain("cpu", "cpu").cost == 0
    # Nobody has measured it, and the plugin does not say.
    assert route.cost is None or route.cost > 0


def used_for(name: str, use: Any) -> Any:
    """A weak reference to a stream of another library, which nobody but Crossdock holds after its use."""
    stream = Foreign(ptr=4096)
    use(stream, xd.ones(4, device=name))
    return weakref.ref(stream)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "use",
    [
        lambda stream, there: there.to("cpu", stream=stream),
        lambda stream, there: xd.Stream(there.device).record().wait(stream),
        lambda stream, there: xd.Stream(there.device, native=stream).record(),
    ],
    ids=["to", "wait", "class"],
)
def test_a_stream_that_was_only_given_is_kept_until_its_work_is_done(
    accelerators: Accelerators, name: Any, use: Any
) -> None:
    accelerators.hold()
    working = [used_for(name, use), used_for(name, use)]
    assert all(stream() is not None for stream in working)
    accelerators.hold(False)
    xd.wait_for_releases(60)
    assert all(stream() is None for stream in working)
    assert used_for(name, use)() is None


@pytest.mark.parametrize("of_each_call", [False, True], ids=["one stream", "a stream for each call"])
def test_calls_on_a_held_stream_of_others_take_as_long_each_however_many_there_were(
    accelerators: Accelerators, of_each_call: bool
) -> None:
    numbers, stream = itertools.count(8192, 64), Foreign(ptr=4096)
    streams: list[Any] = []

    def calls(count: int) -> float:
        begin = time.thread_time()
        for _ in range(count):
            given = Foreign(ptr=next(numbers)) if of_each_call else stream
            xd.Stream(NAMES[0], native=given).record()
            streams.append(given)
        return time.thread_time() - begin

    accelerators.hold()
    try:
        first = min(calls(10) for _ in range(3))
        calls(1000)
        last = min(calls(10) for _ in range(3))
    finally:
        accelerators.hold(False)
    watched = weakref.ref(stream)
    del stream
    streams.clear()
    xd.wait_for_releases(60)
    assert watched() is None
    # Time is measured for growth alone: each call was to ask about all streams before it.
    assert last < 12 * first
