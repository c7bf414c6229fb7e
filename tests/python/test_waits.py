"""Who waits for whom, on devices that claim CUDA and ROCm and write it down (rules 59 to 130)."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
from accelerators import Accelerators
from conftest import Child
from handmade import Forged, Producer
from test_exchange_table import exported

NEW = (1, 3)
TYPES = {"cuda": 2, "rocm": 10}


def there(device: str, size: int = 16) -> xd.Tensor:
    return xd.asarray(np.arange(size, dtype=np.float32)).to(device)


def written_on(
    accelerators: Accelerators, device: str, native: int = 4096
) -> tuple[xd.Tensor, xd.Tensor]:
    """A tensor that a stream still writes, and the one that is read for it."""
    source = there(device)
    accelerators.hold()
    written = source.to(device, stream=xd.Stream(device, native=native), copy=True)
    accelerators.log()
    return written, source


def until(happened: Callable[[], bool]) -> bool:
    """Whether something that another thread does happens within half a minute."""
    limit = time.monotonic() + 30
    while not happened():
        if time.monotonic() > limit:
            return False
        threading.Event().wait(0.001)
    return True


@pytest.mark.parametrize(
    ("device", "stream", "native"),
    [("cuda:1", None, 0), ("cuda:1", 1, 0), ("cuda:1", 2, 2), ("cuda:1", 8192, 8192)]
    + [("rocm:1", None, 0), ("rocm:1", 0, 0), ("rocm:1", 8192, 8192)]
    + [("cuda:1", -1, None), ("rocm:1", -1, None)],
)
def test_rules_64_65_66_bug_24_each_number_means_its_stream(
    accelerators: Accelerators, device: str, stream: int | None, native: int | None
) -> None:
    """The consumer's stream waits for the producer's, and nothing waits for -1."""
    tensor, _source = written_on(accelerators, device)
    _capsule = tensor.__dlpack__(stream=stream, max_version=NEW)
    # Frees of other tests may still be under way on streams of their own.
    named = {f"{device}/{number}" for number in (0, 1, 2, 8192)}
    waits = [line.split()[:2] for line in accelerators.waits()]
    waits = [wait for wait in waits if wait[1] in named]
    assert waits == ([] if native is None else [["wait", f"{device}/{native}"]])


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("table", [False, True])
def test_rule_66_a_consumer_that_may_write_waits_for_what_still_reads(
    accelerators: Accelerators, read_only: bool, table: bool
) -> None:
    forged = Forged((4,), data=accelerators.make("cuda:1"), device=(2, 1), flags=int(read_only))
    source = xd.from_dlpack(Producer(forged))
    assert source.readonly == read_only
    accelerators.hold()
    copied = source.to("cuda:1", stream=xd.Stream("cuda:1", native=4096), copy=True)
    accelerators.log()
    taken_out = exported(source) if table else source.__dlpack__(stream=None, max_version=NEW)
    # Frees of other tests may still be under way on streams of their own.
    waits = [line.split()[:2] for line in accelerators.waits() if "cuda:1/0" in line]
    assert waits == ([] if read_only else [["wait", "cuda:1/0"]])
    # Else a thread of ours frees the copy while the next test reads its log.
    accelerators.hold(False)
    copied.synchronize()
    del copied, taken_out


def test_a_write_of_bytes_behind_a_failure_leaves_it_to_the_stream_to_tell(
    accelerators: Accelerators,
) -> None:
    """Six bits fill no whole byte, so these are written from the host."""
    tensor, stream = xd.zeros(8, dtype="float6_e2m3fn", device="cuda:1"), xd.Stream("cuda:1")
    accelerators.fail()
    for _ in range(2):
        with pytest.raises(xd.DeviceError, match="work before the event failed"):
            tensor.fill(1, stream=stream)
    with pytest.raises(xd.DeviceError, match="work on the stream failed"):
        stream.synchronize()
    tensor.fill(1, stream=stream)
    assert set(tensor.tolist()) == {1}


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1", "rocm:1"])
def test_an_error_names_the_device_where_one_is_known(
    accelerators: Accelerators, device: str
) -> None:
    tensor, stream = xd.zeros(8, device=device), xd.Stream(device, native=4096)
    accelerators.fail()
    with pytest.raises(xd.DeviceError, match="work before the event failed") as refused:
        tensor.fill(1, stream=stream)
    with pytest.raises(xd.DeviceError, match="work on the stream failed") as failed:
        stream.synchronize()
    for error in (refused.value, failed.value):
        assert (error.device, error.plugin) == (device, "accelerators")


@pytest.mark.parametrize("device", ["cuda:0", "rocm:0"])
def test_rule_67_the_consumers_stream_is_neither_kept_nor_destroyed(
    accelerators: Accelerators, device: str
) -> None:
    class Foreign:
        """A stream that can be watched."""

        ptr = 8192

    tensor, foreign = there(device), Foreign()
    before, streams = sys.getrefcount(foreign), accelerators.streams()
    for _ in range(10):
        tensor.__dlpack__(stream=8192, max_version=NEW)
        tensor.to(device, stream=foreign, copy=True)
        tensor.fill(1, stream=foreign)
    accelerators.hold(False)
    xd.device(device).synchronize()
    assert sys.getrefcount(foreign) == before
    assert until(lambda: accelerators.streams() == streams)
    assert "destroy" not in " ".join(accelerators.log())


def test_rule_68_bug_26_nothing_waits_while_streams_are_captured_and_memory_is_freed_later(
    accelerators: Accelerators,
) -> None:
    tensor, source = written_on(accelerators, "cuda:0")
    # What other tests left is given back.
    xd.wait_for_releases(60)
    accelerators.log()
    accelerators.capture()
    capsule = tensor.__dlpack__(stream=-1, max_version=NEW)
    assert accelerators.log() == []
    del capsule, tensor, source
    # A thread of ours may look at the event, but no stream is touched: it is being captured.
    assert [line for line in accelerators.waits() if "/" in line] == []
    accelerators.capture(False)
    assert there("cuda:0").to("cpu").tolist() == list(range(16))


@pytest.mark.parametrize("device", ["cuda:2", "rocm:1"])
def test_rule_82_the_current_stream_is_offered(accelerators: Accelerators, device: str) -> None:
    kind, number = device.split(":")
    address = accelerators.make(device)
    forged = Forged((4,), data=address, device=(TYPES[kind], int(number)))
    producer = Producer(forged)
    with xd.Stream(device) as stream:
        xd.from_dlpack(producer)
    assert producer.calls[-1][1] == {"stream": stream.native_handle, "max_version": NEW}


def taken(accelerators: Accelerators, **changes: Any) -> xd.Tensor:
    """An array of the CUDA array interface, whose producer works on stream 4096."""
    owner = there("cuda:0")
    described = {**owner.__cuda_array_interface__, "stream": 4096, **changes}
    accelerators.hold()
    accelerators.log()
    return xd.from_cuda_array_interface(described, owner)


def test_rule_112_work_of_the_consumer_is_between_two_of_the_producer(
    accelerators: Accelerators,
) -> None:
    """It begins behind the producer's stream, and is done when the call returns."""
    tensor = taken(accelerators)
    tensor.to("cpu")
    log = accelerators.log()
    recorded = next(line.split()[2] for line in log if line.startswith("record cuda:0/4096"))
    kinds = [line.split()[0] for line in log]
    assert f"synchronize {recorded}" in log or any(
        line.startswith("wait") and line.endswith(recorded) for line in log
    )
    assert "copy" in kinds and kinds.index("record") < kinds.index("copy")
    last = len(log) - 1 - kinds[::-1].index("copy")
    assert log[last].endswith("now") or "synchronize" in kinds[last:], log


def test_rules_112_114_a_stream_is_waited_for_without_being_asked(
    accelerators: Accelerators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no way to switch it off."""
    for name in ("CROSSDOCK", "NUMBA"):
        monkeypatch.setenv(f"{name}_CUDA_ARRAY_INTERFACE_SYNC", "0")
    tensor = taken(accelerators)
    assert tensor.__cuda_array_interface__["stream"] == 1
    waits = [line.split()[:2] for line in accelerators.waits()]
    assert ["wait", "cuda:0/0"] in waits


def reached(log: list[str], stream: str) -> set[str]:
    """The events that are behind a stream: those it waits for, and those behind their streams."""
    behind: dict[str, set[str]] = {}
    events: dict[str, set[str]] = {}
    for line in log:
        what, *words = line.split()
        if what == "record":
            seen = behind.setdefault(words[0], set()) | {words[1]}
            behind[words[0]] = events[words[1]] = seen
        elif what == "wait":
            behind.setdefault(words[0], set()).update(events.get(words[1], set()))
    return behind.get(stream, set())


def test_rule_113_all_pending_work_is_behind_the_one_stream_that_is_exported(
    accelerators: Accelerators,
) -> None:
    """A write on one stream, and reads on two others: the consumer may write."""
    tensor, copies = taken(accelerators), list[xd.Tensor]()
    for native in (0x2001, 0x2002):
        copies.append(tensor.to("cuda:0", stream=xd.Stream("cuda:0", native=native), copy=True))
    assert tensor.__cuda_array_interface__["stream"] == 1
    log = accelerators.log()
    ends = [line.split()[1:] for line in log if line.startswith("record cuda:0/")]
    assert [stream for stream, _ in ends] == ["cuda:0/4096", "cuda:0/8193", "cuda:0/8194"], log
    assert {event for _, event in ends} <= reached(log, "cuda:0/0"), log
    assert len(copies) == 2


def test_rule_118_there_is_no_name_for_bfloat16_in_the_interface(
    accelerators: Accelerators,
) -> None:
    """DLPack carries it."""
    tensor = xd.zeros(4, dtype="bfloat16", device="cuda:0")
    assert not hasattr(tensor, "__cuda_array_interface__")
    managed = handmade.struct_in(capsule := tensor.__dlpack__(max_version=NEW))
    assert (managed.tensor.code, managed.tensor.bits) == (4, 16) and capsule


def test_rule_120_dlpack_is_asked_before_the_cuda_array_interface(
    accelerators: Accelerators,
) -> None:
    tensor = there("cuda:1")

    class Both:
        """Speaks both, and is asked by one."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return tensor.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> Any:
            return tensor.__dlpack__(**keywords)

        @property
        def __cuda_array_interface__(self) -> Any:
            raise AssertionError("asked by the weaker protocol")

    assert xd.asarray(Both()).data_ptr() == tensor.data_ptr()
    only = type("Only", (), {"__cuda_array_interface__": tensor.__cuda_array_interface__})
    assert xd.asarray(only()).data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("version", [NEW, None])
@pytest.mark.parametrize("device", ["cuda:0", "cuda:2", "rocm:1"])
def test_bug_27_a_thread_that_never_saw_the_device_may_free_its_memory(
    accelerators: Accelerators, device: str, version: Any
) -> None:
    """The C library starts the thread; it is known neither to Python nor to the runtime."""
    # A size that no other test has, as their memory may go back late.
    tensor = there(device, 23)
    managed = handmade.consume(tensor.__dlpack__(stream=-1, max_version=version))
    del tensor
    accelerators.log()
    libc = ctypes.CDLL(None)
    thread, deleter = ctypes.c_ulong(), ctypes.cast(managed.deleter, ctypes.c_void_p)
    argument = ctypes.c_void_p(ctypes.addressof(managed))
    assert libc.pthread_create(ctypes.byref(thread), None, deleter, argument) == 0
    assert libc.pthread_join(thread, None) == 0
    assert f"free {device} 92" in accelerators.log()


@pytest.mark.parametrize("device", ["cuda:0", "rocm:0"])
def test_bug_28_memory_is_freed_behind_the_work_on_it(
    accelerators: Accelerators, device: str
) -> None:
    tensor = there(device, 29)
    accelerators.hold()
    copied = tensor.to(device, stream=xd.Stream(device, native=8192), copy=True)
    log = accelerators.log()
    written = next(line.split()[2] for line in log if line.startswith(f"record {device}/8192"))
    log.clear()
    del tensor, copied

    def freed() -> bool:
        log.extend(accelerators.log())
        return log.count(f"free {device} 116") == 2

    def behind() -> list[str]:
        return [line.split()[1] for line in log if line.startswith("wait") and written in line.split()]

    # Streams of the runtime wait for the work, and nothing is freed while it is pending.
    assert not freed() and behind(), log
    accelerators.hold(False)
    assert until(freed), log


FORKED = """
import os, sys
import crossdock as xd
from accelerators import Accelerators
from pathlib import Path

loaded = Accelerators(Path({library!r}))
there = xd.ones(16, dtype="uint8", device="cuda:1")
capsule = there.__dlpack__(max_version=(1, 3))
loaded.log()
child = os.fork()
if child == 0:
    refused = 0
    for call in (
        lambda: there.to("cpu"),
        lambda: there.fill(2),
        lambda: xd.zeros(4, device="cuda:0"),
        lambda: there[0].item(),
        lambda: xd.Stream("cuda:1"),
    ):
        try:
            call()
        except (xd.DeviceError, BufferError, RuntimeError):
            refused += 1
    there.__dlpack_device__()
    del there, capsule
    log = loaded.log()
    sys.exit(not (refused == 5 and log == []))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert there.to("cpu").tolist() == [1] * 16
print("alive")
"""


@pytest.mark.ends
def test_rule_130_bug_35_a_forked_child_calls_no_plugin(
    child: Child, accelerators_library: Any
) -> None:
    run = child(FORKED.format(library=str(accelerators_library)))
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr


NO_THREAD = """
import resource
from pathlib import Path
import crossdock as xd
from accelerators import Accelerators

loaded = Accelerators(Path({library!r}))
held = xd.Stream("cuda:0", native=4096)
waiting = xd.Stream("cpu")
# The stream's own thread is there already.
xd.zeros(16).to("cpu", stream=waiting, copy=True)
waiting.synchronize()
loaded.hold()
event = held.record()
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    waiting.wait(event)
except MemoryError as error:
    told = str(error)
finally:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(told)
loaded.hold(False)
"""


def test_a_thread_that_is_not_to_be_had_is_a_memory_error(
    child: Child, accelerators_library: Any
) -> None:
    run = child(NO_THREAD.format(library=str(accelerators_library)))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("start a thread that polls: "), run.stdout
