"""The rules of order, each as one exchange: work on one stream, the exchange, work on another one.

A rule gives a function that waits for the result and says whether it is right. The first work is held until then, so
that it is late in the exchange: but for the rules by which the host waits, which are listed. Names say who gives and
who takes.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import driver
import numpy as np
from driver import LEGACY
from late import Read, gate
from frameworks import SIZE, Array, CuPys, PyTorchs, PyTorchsByTable
from structs import Versioned, consume, delete
from test_exchange_table import STREAM, exported, ours

import crossdock as xd

HERE, OTHER = f"{driver.NAME}:0", f"{driver.NAME}:1"
IS_CUDA = driver.NAME == "cuda"
Verify = Callable[[], bool]
Rule = Callable[[], Verify]
RULES: dict[str, Rule] = {}
# Those by which the host waits.
OF_THE_HOST: set[str] = set()
# A byte that nothing of the run before has.
_values = itertools.cycle(range(1, 250))
_streams: dict[str, int] = {}
_own: dict[tuple[str, str], xd.Stream] = {}


def fresh() -> int:
    return next(_values)


def own(name: str, device: str = HERE) -> xd.Stream:
    """A stream of ours, the same each time."""
    if (name, device) not in _own:
        _own[name, device] = xd.Stream(device)
    return _own[name, device]


def foreign(name: str) -> int:
    """A stream of another library, the same each time."""
    if name not in _streams:
        _streams[name] = driver.stream()
    return _streams[name]


def rule(name: str, function: Callable[..., Verify], *arguments: Any) -> None:
    RULES[name] = lambda: function(*arguments)


def rule_of_the_host(name: str, function: Callable[..., Verify], *arguments: Any) -> None:
    rule(name, function, *arguments)
    OF_THE_HOST.add(name)


def ours_written(is_held: bool = True) -> tuple[xd.Tensor, int]:
    """A tensor that a stream still writes."""
    tensor, value = xd.empty(SIZE, dtype="uint8", device=HERE), fresh()
    if is_held:
        gate(own("writer").native_handle)
    tensor.fill(value, stream=own("writer"))
    return tensor, value


_crossdock = ctypes.CDLL(str(Path(xd.__file__).parent / "libcrossdock.so.1"))
_crossdock.xd_runtime_free.argtypes = _crossdock.xd_error_free.argtypes = [ctypes.c_void_p]
_crossdock.xd_runtime_wait_for_releases.restype = ctypes.c_void_p


def is_all_given_back(seconds: float) -> bool:
    """Whether what was dropped is given back within a time."""
    runtime = ctypes.c_void_p()
    assert _crossdock.xd_runtime_default(ctypes.byref(runtime)) == 0
    error = _crossdock.xd_runtime_wait_for_releases(runtime, ctypes.c_uint64(int(seconds * 1e9)))
    _crossdock.xd_error_free(error)
    _crossdock.xd_runtime_free(runtime)
    return error is None


def holds(read: Read, value: int, *kept: Any) -> Verify:
    def verify() -> bool:
        found = read.values()
        for taken in kept:
            if isinstance(taken, Versioned):
                delete(taken)
        return found == {value}

    return verify


# Consumers by DLPack: each number means its stream.


def consumer_reads(number: int | None, stream: str | int) -> Verify:
    stream = foreign(stream) if isinstance(stream, str) else stream
    tensor, value = ours_written(not IS_CUDA or number != 2)
    number = stream if number == 3 else number
    managed = consume(tensor.__dlpack__(stream=number, max_version=(1, 3)))
    read = Read(managed.tensor.data or 0, SIZE, stream)
    return holds(read, value, managed)


def consumer_waits_itself() -> Verify:
    producing = own("writer")
    tensor, value = ours_written()
    managed = consume(tensor.__dlpack__(stream=-1, max_version=(1, 3)))
    driver.wait_for(foreign("consumer"), producing.native_handle)
    return holds(Read(managed.tensor.data or 0, SIZE, foreign("consumer")), value, managed, producing)


def consumer_writes_behind_a_reader(number: int | None) -> Verify:
    stream = foreign("consumer") if number == 3 else LEGACY
    tensor, value = ours_written(False)
    tensor.synchronize()
    gate(own("work").native_handle)
    copied = tensor.to(HERE, stream=own("work"), copy=True)
    managed = consume(tensor.__dlpack__(stream=stream, max_version=(1, 3)))
    driver.fill(managed.tensor.data or 0, fresh(), SIZE, stream)

    def verify() -> bool:
        driver.synchronize(stream)
        delete(managed)
        return set(copied.tolist()) == {value}

    return verify


for _name, _number, _stream in (
    ("None", None, LEGACY), ("default", LEGACY, LEGACY), ("handle", 3, "consumer"),
):
    rule(f"dlpack_{_name}", consumer_reads, _number, _stream)
if IS_CUDA:
    # A thread's default stream is out of the driver's reach but on that thread: the tensor is ready.
    rule_of_the_host("dlpack_2", consumer_reads, 2, driver.PER_THREAD)
rule("dlpack_minus_1", consumer_waits_itself)
rule("dlpack_write_default", consumer_writes_behind_a_reader, LEGACY)
rule("dlpack_write_handle", consumer_writes_behind_a_reader, 3)


def table_hands_out(is_current: bool) -> Verify:
    tensor, value = ours_written()
    with own("current") if is_current else xd.current_stream(HERE):
        native = ctypes.c_void_p()
        answer, managed = exported(tensor)
        assert answer == 0 and STREAM(ours().stream)(driver.TYPE, 0, ctypes.byref(native)) == 0
        read = Read(managed.tensor.data or 0, SIZE, native.value or LEGACY)
    return holds(read, value, managed)


rule("table_default", table_hands_out, False)
rule("table_current", table_hands_out, True)


# Libraries take and give, on a stream of their own and on the default one.


def library_takes(
    library: type[Array], take: Callable[[Any], Array], stream: str, is_written: bool, is_late: bool
) -> Verify:
    library.current = foreign(stream) if stream else 0
    tensor, value = ours_written(is_late)
    array = take(tensor)
    if not is_written:
        return holds(array.read(), value, tensor, array)
    value = fresh()
    array.fill(value)
    return holds(array.read(), value, tensor, array)


def library_gives(library: type[Array], take: Callable[[Any], xd.Tensor], stream: str, is_current: bool) -> Verify:
    library.current = foreign(stream) if stream else 0
    array, value = library(), fresh()
    gate(library.current)
    array.fill(value)
    work = own("work")
    with own("current") if is_current else xd.current_stream(HERE):
        tensor = take(array)
    copied = tensor.to(HERE, stream=work, copy=True)
    return holds(Read(copied.data_ptr(), SIZE, work.native_handle), value, tensor, copied, work)


def library_gives_and_drops(library: type[Array], take: Callable[[Any], xd.Tensor]) -> Verify:
    """What it gave goes back once our work on it is over: its next array may have the same memory."""
    library.current = foreign("library")
    array, value = library(), fresh()
    gate(library.current)
    array.fill(value)
    work = own("work")
    copied = take(array).to(HERE, stream=work, copy=True)
    del array
    # It is in use until the gate is open. If nobody minds, it is given back in this time.
    driver.simulator.progress()
    is_all_given_back(0.1)
    library().fill(fresh())
    return holds(Read(copied.data_ptr(), SIZE, work.native_handle), value, copied, work)


def rules_of_taking(library: type[Array], take: Callable[[Any], Array], add: Callable[..., None]) -> None:
    for stream in ("library", ""):
        name = f"{take.__qualname__}_{stream or 'default'}".replace(".", "_")
        is_late = add is rule
        add(name, library_takes, library, take, stream, False, is_late)
        add(f"{name}_writes", library_takes, library, take, stream, True, is_late)


def rules_of_giving(library: type[Array], take: Callable[[Any], xd.Tensor]) -> None:
    for stream, is_current in itertools.product(("library", ""), (False, True)):
        place = f"{stream or 'default'}{'_current' if is_current else ''}"
        rule(f"{take.__name__}_{library.__name__}_{place}", library_gives, library, take, stream, is_current)
    rule(f"{take.__name__}_{library.__name__}_drop", library_gives_and_drops, library, take)


for _library in (CuPys, PyTorchs):
    rules_of_taking(_library, _library.from_dlpack, rule)
for _library in (CuPys, PyTorchs, PyTorchsByTable):
    rules_of_giving(_library, xd.from_dlpack)
rules_of_taking(CuPys, CuPys.asarray, rule_of_the_host)
rules_of_giving(CuPys, xd.as_cuda_array)
# By the interface PyTorch looks at no stream. The default one is in order with ours, or the host has waited where the
# interface has no number for it.
by_its_number = rule if IS_CUDA else rule_of_the_host
by_its_number("PyTorchs_as_tensor_default", library_takes, PyTorchs, PyTorchs.as_tensor, "", False, IS_CUDA)


# The CUDA array interface by its numbers.


def interface_taken(version: int, number: int | None) -> Verify:
    stream = {1: LEGACY, 2: 2}.get(number or 0, foreign("producer"))
    value, address = fresh(), driver.allocate(SIZE)
    if number is not None:
        gate(stream)
    driver.fill(address, value, SIZE, stream)
    described: dict[str, Any] = {"version": version, "shape": (SIZE,), "typestr": "|u1", "data": (address, False)}
    if version == 3:
        described["stream"] = stream if number == 3 else number
    if number is None:
        driver.synchronize(stream)
    tensor, work = xd.from_cuda_array_interface(described), own("work")
    copied = tensor.to(HERE, stream=work, copy=True)
    return holds(Read(copied.data_ptr(), SIZE, work.native_handle), value, tensor, copied, work)


def interface_given(is_current: bool) -> Verify:
    """The consumer's stream waits for the one that is named, as Numba's."""
    tensor, value = ours_written(IS_CUDA or is_current)
    with own("current") if is_current else xd.current_stream(HERE):
        described = tensor.__cuda_array_interface__
        if described["stream"] is not None:
            driver.wait_for(foreign("consumer"), described["stream"])
        read = Read(described["data"][0], SIZE, foreign("consumer"))
    return holds(read, value, tensor)


for _name, _version, _number in (
    ("v2", 2, None), ("v3_None", 3, None), ("v3_1", 3, 1), *([("v3_2", 3, 2)] * IS_CUDA), ("v3_handle", 3, 3),
):
    _rule = rule if _number else rule_of_the_host
    _rule(f"interface_{_name}", interface_taken, _version, _number)
by_its_number("interface_given_default", interface_given, False)
rule("interface_given_current", interface_given, True)


# Streams of others, and work of others on memory of ours.


def wrapped_stream() -> Verify:
    tensor, value = ours_written()
    copied = tensor.to(HERE, stream=xd.Stream(HERE, native=foreign("other")), copy=True)
    return holds(Read(copied.data_ptr(), SIZE, foreign("other")), value, tensor, copied)


def own_write() -> Verify:
    tensor, _value = ours_written()
    value, other = fresh(), xd.Stream(HERE, native=foreign("other"))
    tensor.wait_to_write(other)
    driver.fill(tensor.data_ptr(), value, SIZE, foreign("other"))
    tensor.written_on(other)
    work = own("work")
    copied = tensor.to(HERE, stream=work, copy=True)
    return holds(Read(copied.data_ptr(), SIZE, work.native_handle), value, tensor, copied, work)


def own_read() -> Verify:
    tensor, value = ours_written()
    other = xd.Stream(HERE, native=foreign("other"))
    tensor.wait_to_read(other)
    read = Read(tensor.data_ptr(), SIZE, foreign("other"))
    tensor.used_on(other)
    tensor.fill(fresh(), stream=own("work"))
    return holds(read, value, tensor)


def event_waited_for() -> Verify:
    first, second = own("writer"), own("second")
    tensor, value = ours_written()
    second.wait(first.record())
    return holds(Read(tensor.data_ptr(), SIZE, second.native_handle), value, tensor, first, second)


rule("wrapped_stream", wrapped_stream)
rule("own_write", own_write)
rule("own_read", own_read)
rule("event_waited_for", event_waited_for)


# Moves, and memory that goes in order.


def moved(device: str, of: str) -> Verify:
    tensor, value = ours_written()
    work = own("work", of)
    copied = tensor.to(device, stream=work, copy=True)
    reading = own("reading", device)
    copied.wait_to_read(reading)
    driver.on(int(device[-1]))
    read = Read(copied.data_ptr(), SIZE, reading.native_handle)
    driver.on(0)
    return holds(read, value, tensor, copied, work, reading)


def written_twice() -> Verify:
    tensor, _first = ours_written()
    work, value = own("work"), fresh()
    tensor.fill(value, stream=work)
    return holds(Read(tensor.data_ptr(), SIZE, work.native_handle), value, tensor, work)


def to_the_host() -> Verify:
    tensor, value = ours_written()
    there = tensor.to("cpu", stream=own("work"))
    return lambda: set(there.numpy().tolist()) == {value}


def from_the_host() -> Verify:
    value = fresh()
    array = np.full(SIZE, value, np.uint8)
    first, second = own("first"), own("second")
    gate(first.native_handle)
    copied = xd.asarray(array).to(HERE, stream=first, copy=True).to(HERE, stream=second, copy=True)
    return holds(Read(copied.data_ptr(), SIZE, second.native_handle), value, copied, first, second)


def freed_in_order() -> Verify:
    first, second = own("first"), own("second")
    tensor, value = xd.empty(SIZE, dtype="uint8", device=HERE, stream=first), fresh()
    gate(first.native_handle)
    tensor.fill(value, stream=first)
    copied = tensor.to(HERE, stream=second, copy=True)
    del tensor
    xd.empty(SIZE, dtype="uint8", device=HERE, stream=first).fill(fresh(), stream=first)
    return holds(Read(copied.data_ptr(), SIZE, second.native_handle), value, copied, first, second)


def through_the_host() -> Verify:
    """To a device that shares nothing with this one."""
    tensor, value = ours_written(False)
    there = tensor.to("opencl:0", stream=own("work"), copy=True)
    return lambda: set(there.tolist()) == {value}


def from_there_through_the_host() -> Verify:
    value = fresh()
    there = xd.asarray(np.full(SIZE, value, np.uint8)).to("opencl:0")
    tensor = there.to(HERE, stream=own("work"), copy=True)
    reading = own("reading")
    tensor.wait_to_read(reading)
    return holds(Read(tensor.data_ptr(), SIZE, reading.native_handle), value, tensor, there)


if any(device.type == "opencl" for device in xd.devices()):
    rule_of_the_host("staged_out", through_the_host)
    rule_of_the_host("staged_in", from_there_through_the_host)
rule("move", moved, HERE, HERE)
rule("peer_copy_there", moved, OTHER, OTHER)
rule("peer_copy_here", moved, OTHER, HERE)
rule("written_twice", written_twice)
rule("to_the_host", to_the_host)
rule("from_the_host", from_the_host)
rule("freed_in_order", freed_in_order)


# What the host waits for.


def host_reads(read: Callable[[xd.Tensor], Any]) -> Verify:
    tensor, value = ours_written(False)
    found = np.array(read(tensor))
    return lambda: set(found.tolist()) == {value}


def host_waits(wait: Callable[[xd.Tensor, xd.Stream], None]) -> Verify:
    stream = own("writer")
    tensor, value = ours_written(False)
    wait(tensor, stream)
    return holds(Read(tensor.data_ptr(), SIZE, foreign("consumer")), value, tensor, stream)


rule_of_the_host("host_tolist", host_reads, lambda tensor: tensor.tolist())
rule_of_the_host("host_to_cpu", host_reads, lambda tensor: tensor.to("cpu").numpy())
rule_of_the_host("host_dlpack", host_reads, lambda tensor: np.from_dlpack(tensor, device="cpu"))
rule_of_the_host("host_tensor_synchronize", host_waits, lambda tensor, _stream: tensor.synchronize())
rule_of_the_host("host_stream_synchronize", host_waits, lambda _tensor, stream: stream.synchronize())
rule_of_the_host("host_device_synchronize", host_waits, lambda _tensor, _stream: xd.device(HERE).synchronize())
rule_of_the_host("host_event_synchronize", host_waits, lambda _tensor, stream: stream.record().synchronize())
