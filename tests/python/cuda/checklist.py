"""Rules and bugs of exchange that take a driver to decide, one function each, and wrong claims on CUDA.

Prints `NAME: ok`, or what went wrong.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import driver
import numpy as np
from driver import SIZE, U64, made

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from handmade import Forged, Producer, delete, struct_in
from test_exchange_table import exported

import crossdock as xd

BYTES = 4096
CPU, CUDA, CUDA_HOST, OPENCL, ROCM, CUDA_MANAGED = 1, 2, 3, 4, 10, 13
TESTS: dict[str, Callable[[], None]] = {}


def test(function: Callable[[], None]) -> Callable[[], None]:
    TESTS[function.__name__] = function
    return function


def memory(kind: int, device: int = 0) -> int:
    """Memory of another library, of a kind, with sevens in it."""
    driver.on(device)
    if kind == CUDA:
        address = driver.allocate(BYTES)
    elif kind == CUDA_HOST:
        address = made("cuMemAllocHost_v2", SIZE(BYTES))
    else:
        address = made("cuMemAllocManaged", SIZE(BYTES), 1)
    driver.call("cuMemsetD8_v2", U64(address), ctypes.c_ubyte(7), SIZE(BYTES))
    driver.call("cuCtxSynchronize")
    driver.on(0)
    return address


def forged(address: int, pair: tuple[int, int]) -> Forged:
    return Forged((BYTES,), dtype=(1, 8, 1), device=pair, data=address, size=1)


def is_refused(address: int, pair: tuple[int, int], error: type[Exception], *words: str) -> None:
    """A claim is refused with both sides named, and its memory given back once, if it was asked for at all."""
    claim = forged(address, pair)
    producer = Producer(claim)
    try:
        tensor = xd.from_dlpack(producer)
        # What is called the host's is looked at before it is used.
        tensor.tolist()
    except error as refusal:
        assert all(word in str(refusal) for word in words), refusal
        del refusal
    else:
        raise AssertionError("it was taken")
    tensor = None
    gc.collect()
    assert claim.deleted == sum(name == "dlpack" for name, _ in producer.calls)


def is_taken(address: int, pair: tuple[int, int], device: str, kind: str, stated: tuple[int, int]) -> None:
    """A claim is taken, and corrected: where the memory is, and as what it is handed out again."""
    tensor = xd.from_dlpack(Producer(forged(address, pair)))
    found = xd.pointer_info(tensor.data_ptr())
    assert (str(found.device), found.kind) == (device, kind), found
    assert tensor.__dlpack_device__() == stated, tensor.__dlpack_device__()
    capsule = tensor.__dlpack__(max_version=(1, 3))
    handed_out = struct_in(capsule).tensor
    assert (handed_out.device_type, handed_out.device_id) == stated
    assert set(tensor.to("cpu").tolist()) == {7}


@test
def rule_72_bug_22_a_wrong_id_is_corrected_by_the_address() -> None:
    for own, other in ((0, 1), (1, 0)):
        is_taken(memory(CUDA, own), (CUDA, other), f"cuda:{own}", "device", (CUDA, own))


@test
def bug_22_the_current_device_is_nobodys() -> None:
    there = xd.asarray(np.full(BYTES, 7, np.uint8)).to("cuda:1")
    assert there.__dlpack_device__() == (CUDA, 1)
    back = xd.from_dlpack(Producer(forged(there.data_ptr(), (CUDA, 1))))
    assert str(back.device) == "cuda:1"
    described = there.__cuda_array_interface__
    assert str(xd.from_cuda_array_interface(described, there).device) == "cuda:1"


@test
def rule_117_bug_23_managed_memory_is_neither_pinned_nor_plain() -> None:
    address = memory(CUDA_MANAGED)
    info = xd.pointer_info(address)
    assert (info.kind, info.managed, str(info.device)) == ("managed", True, "cuda:0")
    is_taken(address, (CUDA_MANAGED, 0), "cuda:0", "managed", (CUDA_MANAGED, 0))


@test
def bug_23_pinned_memory_comes_back_as_pinned() -> None:
    is_taken(memory(CUDA_HOST), (CUDA_HOST, 0), "cuda:0", "pinned", (CUDA_HOST, 0))


@test
def rule_116_the_interface_finds_the_device_and_the_kind() -> None:
    for kind, stated in ((CUDA, (CUDA, 1)), (CUDA_HOST, (CUDA_HOST, 0)), (CUDA_MANAGED, (CUDA_MANAGED, 0))):
        described: dict[str, Any] = {"version": 3, "shape": (BYTES,), "typestr": "|u1", "data": (memory(kind, 1), True)}
        tensor = xd.from_cuda_array_interface(described)
        assert tensor.__dlpack_device__() == stated and tensor.readonly
        assert set(tensor.to("cpu").tolist()) == {7}


@test
def claim_of_plain_memory_for_pinned_or_managed() -> None:
    """A kind that the vendor's plugin does not confirm is corrected."""
    is_taken(memory(CUDA_MANAGED), (CUDA, 0), "cuda:0", "managed", (CUDA_MANAGED, 0))
    is_taken(memory(CUDA_HOST), (CUDA, 0), "cuda:0", "pinned", (CUDA_HOST, 0))


@test
def claim_of_pinned_or_managed_for_plain_memory() -> None:
    for kind, name in ((CUDA_HOST, "cuda_host:0"), (CUDA_MANAGED, "cuda_managed:0")):
        is_refused(memory(CUDA), (kind, 0), BufferError, "`cuda:0`", f"`{name}`")


@test
def claim_of_another_vendor() -> None:
    is_refused(memory(CUDA), (ROCM, 0), xd.UnsupportedDeviceError, "rocm:0")
    if any(device.type == "opencl" for device in xd.devices()):
        is_refused(memory(CUDA), (OPENCL, 0), BufferError, "opencl:0", "cuda:0")


@test
def claim_of_the_host_for_device_memory() -> None:
    is_refused(memory(CUDA), (CPU, 0), BufferError, "cpu:0", "cuda:0")
    is_refused(memory(CUDA, 1), (CPU, 0), BufferError, "cpu:0", "cuda:1")


@test
def claim_of_a_device_for_host_memory() -> None:
    array = np.full(BYTES, 7, np.uint8)
    is_refused(array.ctypes.data, (CUDA, 0), BufferError, "cuda:0", "does not know this data pointer")
    # Not even the driver's kinds are believed: it is the host's, and nobody calls it pinned again.
    for kind in (CUDA_HOST, CUDA_MANAGED):
        tensor = xd.from_dlpack(Producer(forged(array.ctypes.data, (kind, 0))))
        assert tensor.__dlpack_device__() == (CPU, 0) and set(tensor.tolist()) == {7}


@test
def claim_of_a_device_that_is_not_there() -> None:
    is_refused(memory(CUDA), (CUDA, 9), xd.UnsupportedDeviceError, "cuda:9")


@test
def claim_of_bytes_beyond_the_allocation() -> None:
    is_refused(memory(CUDA) + 1, (CUDA, 0), BufferError, str(BYTES))


@test
def rule_68_bug_26_nothing_that_a_capture_forbids() -> None:
    """A stream of others captures in the global mode, which any unsafe call of any thread would break."""
    tensor = xd.asarray(np.full(BYTES, 7, np.uint8)).to("cuda:0")
    tensor.synchronize()
    stream = driver.stream()
    for mode in (0, 1):
        driver.call("cuStreamBeginCapture_v2", U64(stream), mode)
        managed = struct_in(capsule := tensor.__dlpack__(stream=-1, max_version=(1, 3)))
        driver.fill(managed.tensor.data or 0, 7, BYTES, stream)
        answer, managed = exported(tensor)
        assert answer == 0
        driver.fill(managed.tensor.data or 0, 7, BYTES, stream)
        delete(managed)
        # Dropped within the capture: given back later, or by what a capture allows.
        dropped = xd.empty(BYTES, dtype="uint8", device="cuda:0")
        del dropped, capsule
        ended = U64()
        driver.call("cuStreamEndCapture", U64(stream), ctypes.byref(ended))
        assert ended.value
        driver.call("cuGraphDestroy", ended)
    assert set(tensor.tolist()) == {7}


@test
def rule_68_what_a_capture_refuses_was_not_begun() -> None:
    """So the tensors can be used at once, and dropped without a trace."""
    tensor, source = xd.full(BYTES, 7, dtype="uint8", device="cuda:0"), xd.full(BYTES, 3, dtype="uint8")
    stream = driver.stream()
    wrapped = xd.Stream("cuda:0", native=stream)
    before = xd._crossdock._counted_leaks(), tensor.device.memory_usage().used
    driver.call("cuStreamBeginCapture_v2", U64(stream), 2)
    works: list[Callable[[], object]] = [
        lambda: tensor.fill(1, stream=wrapped),
        lambda: source.to("cuda:0", stream=wrapped, copy=True),
        lambda: tensor.to("cpu", stream=wrapped, copy=True),
        lambda: tensor.to("cuda:1", stream=wrapped, copy=True),
    ]
    for work in works:
        try:
            work()
        except xd.DeviceError as refusal:
            assert "captures" in str(refusal), refusal
        else:
            raise AssertionError("it was put on a captured stream")
        assert (set(tensor.tolist()), set(source.tolist())) == ({7}, {3})
    ended = U64()
    driver.call("cuStreamEndCapture", U64(stream), ctypes.byref(ended))
    assert ended.value
    driver.call("cuGraphDestroy", ended)
    xd.wait_for_releases(60)
    assert (xd._crossdock._counted_leaks(), tensor.device.memory_usage().used) == before


@test
def a_stream_of_others_is_not_used_once_nobody_here_has_it() -> None:
    """Its owner may destroy it, whatever tensors were moved on it."""
    for is_pending in (False, True):
        stream = driver.stream()
        wrapped = xd.Stream("cuda:0", native=stream)
        content = np.full(1 << 18, 7, np.uint8)
        tensors = [xd.asarray(content).to("cuda:0", stream=wrapped, copy=True) for _ in range(3)]
        if not is_pending:
            wrapped.synchronize()
        del tensors[0]
        del wrapped
        driver.call("cuStreamDestroy_v2", U64(stream))
        assert set(tensors[0].tolist()) == {7}
        del tensors
        xd.wait_for_releases(60)


@test
def bug_27_a_thread_without_a_context_frees_and_has_none_afterwards() -> None:
    tensors = [xd.asarray(np.full(BYTES, 7, np.uint8)).to(f"cuda:{device}") for device in (0, 1)]
    contexts: list[int] = []

    def free() -> None:
        contexts.append(made("cuCtxGetCurrent"))
        tensors.clear()
        contexts.append(made("cuCtxGetCurrent"))

    before = made("cuCtxGetCurrent")
    thread = threading.Thread(target=free)
    thread.start()
    thread.join()
    assert contexts == [0, 0] and made("cuCtxGetCurrent") == before and not tensors


def main() -> None:
    driver.start()
    for name, function in TESTS.items():
        try:
            function()
            reports = driver.taken_reports()
            print(f"{name}: {'ok' if not reports else reports}")
        except Exception:
            print(f"{name}: {traceback.format_exc()}")


main()
