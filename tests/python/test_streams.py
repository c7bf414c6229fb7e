"""Streams, events, pointer queries and the trace."""

import asyncio
import contextvars
import json
import threading
from typing import Any
from pathlib import Path

import crossdock as xd
import numpy as np
import pytest

devices = pytest.mark.parametrize("device", xd.devices(), ids=str)


@devices
def test_work_is_done_in_the_order_of_its_stream(device: Any) -> None:
    stream = xd.Stream(device)
    assert stream.device == device
    array = np.arange(1 << 16)
    there = xd.asarray(array).to(device, stream=stream, copy=True)
    there.fill(5, stream=stream)
    event = stream.record()
    event.synchronize(timeout=30)
    assert event.query() and event.device == device
    stream.synchronize()
    assert stream.query() and set(there.tolist()) == {5}


@devices
def test_a_stream_waits_for_the_event_of_any_device(device: Any) -> None:
    for other in xd.devices():
        first, second = xd.Stream(other), xd.Stream(device)
        source = xd.asarray(np.arange(1 << 16)).to(other, stream=first, copy=True)
        event = first.record()
        second.wait(event)
        event.wait(second)
        event.wait()
        moved = source.to(device, stream=second)
        second.synchronize()
        assert moved[-1].item() == (1 << 16) - 1


@devices
def test_explain_takes_what_a_move_takes(device: Any) -> None:
    tensor = xd.ones(64)
    for other in (device, xd.device("cpu")):
        there, stream = tensor.to(other), xd.Stream(device)
        copied = xd.explain(there, device, copy=True, stream=stream)
        assert copied.kind in ("direct", "staged") and copied.bytes_copied >= there.nbytes
        waits = "the caller waits for the work on the stream" in str(copied)
        follows = "submitted to streams before the call returns" in str(copied)
        assert waits or follows or copied.kind == "direct"
        kept = xd.explain(there, device, copy=False, stream=stream).kind
        assert kept in ("alias", "refused")
        by_device = xd.explain(
            other, device, shape=[64], dtype="float64", copy=True, stream=stream
        )
        assert str(by_device) == str(copied)


def test_explain_refuses_a_stream_that_a_move_refuses() -> None:
    tensor = xd.ones(4)
    for call in (tensor.to, lambda *a, **k: xd.explain(tensor, *a, **k)):
        with pytest.raises((TypeError, ValueError)) as refused:
            call("cpu", stream=object())
        assert "is no stream" in str(refused.value)


def test_work_that_writes_a_read_only_tensor_is_refused_as_a_write_is() -> None:
    tensor, stream = xd.asarray(b"1234", dtype="uint8"), xd.Stream("cpu")
    assert tensor.readonly
    fill: Any = lambda on: tensor.fill(1, stream=on)
    for call in (tensor.written_on, fill):
        with pytest.raises(ValueError, match="the tensor is read-only: `t.copy\\(\\)` gives one"):
            call(stream)
    tensor.used_on(stream)


@devices
def test_events_measure_time(device: Any) -> None:
    stream = xd.Stream(device)
    begin = stream.record()
    xd.ones(1 << 16, device=device).to(device, stream=stream, copy=True)
    end = stream.record()
    end.synchronize()
    if "timing" not in device.capabilities:
        pytest.skip("skipped: the device's events carry no times")
    assert 0 <= end.elapsed_since(begin) < 60
    if end.elapsed_since(begin):
        # A time that goes backwards is no time.
        with pytest.raises(xd.DeviceError, match="happened before") as caught:
            begin.elapsed_since(end)
        assert caught.value.device == str(xd.device(device))


@devices
def test_with_makes_a_stream_current_in_its_context_only(device: Any) -> None:
    default = xd.current_stream(device)
    one, other = xd.Stream(device), xd.Stream(device)
    seen = []
    with one:
        assert xd.current_stream(device) == one
        with other:
            assert xd.current_stream(device) == other
            with pytest.raises(KeyError), one:
                raise KeyError
            thread = threading.Thread(target=lambda: seen.append(xd.current_stream(device)))
            thread.start()
            thread.join()
        assert xd.current_stream(device) == one
        assert contextvars.copy_context().run(xd.current_stream, device) == one
    assert xd.current_stream(device) == default and seen == [default]
    for another in xd.devices():
        if another != device:
            with one:
                assert xd.current_stream(another) != one


def test_tasks_do_not_see_each_others_streams() -> None:
    async def work(stream: Any, turn: Any, other: Any) -> Any:
        with stream:
            turn.set()
            await other.wait()
            return xd.current_stream("cpu") == stream

    async def both() -> Any:
        turns = asyncio.Event(), asyncio.Event()
        streams = xd.Stream("cpu"), xd.Stream("cpu")
        return await asyncio.gather(
            work(streams[0], *turns), work(streams[1], *turns[::-1])
        )

    assert asyncio.run(both()) == [True, True]


@devices
def test_a_move_without_blocking_is_in_the_order_of_the_current_stream(device: Any) -> None:
    with xd.Stream(device) as stream:
        there = xd.asarray(np.arange(1000)).to(device, non_blocking=True, copy=True)
    stream.synchronize()
    assert there.tolist() == list(range(1000))
    assert there.to_device(device, stream=stream).tolist() == list(range(1000))


class Foreign:
    """Another library's stream, by one of the names that such objects use."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


@devices
def test_streams_of_other_libraries_are_taken_by_the_names_they_use(device: Any) -> None:
    own = xd.Stream(device)
    try:
        handle = own.native_handle
    except (xd.DeviceError, ValueError, BufferError):
        pytest.skip("skipped: the device's streams have no native handle")
    foreign = [handle] + [Foreign(**{name: handle}) for name in ("ptr", "cuda_stream", "int_ptr")]
    foreign.append(Foreign(__cuda_stream__=lambda: (0, handle)))
    for native in foreign:
        wrapped = xd.Stream(device, native=native)
        assert wrapped.native_handle == handle
        assert wrapped == own
        assert xd.ones(3).to(device, stream=native, copy=True).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "native",
    [
        object(), "text", -1, 1 << 64, True, 1.5,
        Foreign(__cuda_stream__=lambda: (1, 5)), Foreign(ptr="a"),
    ],
)  # fmt: skip
def test_what_is_no_stream_is_a_type_error(native: Any) -> None:
    with pytest.raises(TypeError, match=r"."):
        xd.Stream("cpu", native=native)


def test_a_limit_that_is_no_time_is_a_value_error() -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout"):
            xd.Stream("cpu").synchronize(timeout=wrong)


@devices
def test_a_device_says_how_much_memory_it_has(device: Any) -> None:
    free, total = device.memory()
    assert 0 < total < 1 << 60
    assert free is None or 0 <= free <= total


@devices
def test_freed_memory_is_counted_and_given_back(device: Any) -> None:
    device.trim()
    before = device.memory_usage()
    tensor = xd.empty(1 << 20, dtype="uint8", device=device)
    usage = device.memory_usage()
    assert usage.used >= before.used + (1 << 20)
    assert usage.used <= usage.reserved <= usage.peak_reserved
    tensor.fill(7)
    device.trim()
    assert tensor.tolist()[-1] == 7
    del tensor, usage
    xd.wait_for_releases(60)
    device.trim(keep=1 << 40)
    kept = device.memory_usage()
    assert kept.used == before.used
    device.trim(keep=0)
    device.trim()
    usage = device.memory_usage()
    assert usage.reserved <= min(kept.reserved, before.reserved)
    assert usage.peak_used >= before.used + (1 << 20)
    device.reset_peaks()
    usage = device.memory_usage()
    assert (usage.peak_used, usage.peak_reserved) == (usage.used, usage.reserved)
    assert usage == device.memory_usage() and f"used={usage.used}" in repr(usage)


def test_no_number_of_bytes_to_keep_is_refused() -> None:
    with pytest.raises(OverflowError):
        xd.device("cpu").trim(keep=-1)
    wrong: Any = 0.5
    with pytest.raises(TypeError):
        xd.device("cpu").trim(keep=wrong)


@devices
def test_a_device_says_what_works_on_it_and_waits(device: Any) -> None:
    assert "fill" in device.capabilities and isinstance(device.capabilities, frozenset)
    device.synchronize()
    device.synchronize(timeout=10)


def test_a_pointer_query_says_who_owns_an_address() -> None:
    tensor = xd.zeros(100)
    info: Any = xd.pointer_info(tensor.data_ptr() + 8)
    assert info.kind in ("device", "host") and info.device == tensor.device
    assert info.base <= tensor.data_ptr() and info.size >= tensor.nbytes
    assert info.read_only is False and info.allocation_id != xd.pointer_info(
        xd.zeros(100).data_ptr()
    ).allocation_id
    foreign = xd.pointer_info(np.zeros(10).ctypes.data)
    assert foreign.kind == "unowned" and foreign.device is None and foreign.size is None
    assert xd.pointer_info(0).kind == "unowned"
    assert "cpu:0" in repr(info) and "unowned" in repr(foreign)


def test_a_trace_is_written_while_its_block_runs(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with xd.trace(path):
        xd.ones(1000).to("cpu", copy=True)
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    assert events
    with xd.trace(path), pytest.raises(ValueError, match=r".+"), xd.trace(tmp_path / "two.json"):
        pass
