"""The structs themselves: versions, shapes, strides, offsets, dtypes and owners (rules 5 to 41)."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections.abc import Sequence
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
from conftest import Child
from handmade import Forged, exported

NEW: tuple[int, int] = (1, 3)
BOTH = pytest.mark.parametrize("version", [NEW, None], ids=["versioned", "legacy"])
EMPTY = [(0,), (0, 3), (3, 0, 2), (1, 8, 0, 128)]


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def extents(numbers: Any, rank: int) -> tuple[int, ...]:
    return tuple(numbers[at] for at in range(rank))


def test_rules_1_to_4_the_structs_are_as_long_as_the_header_says() -> None:
    """`sdk/tests/dlpack_header.rs` asks the C compiler; here it is what these tests read by."""
    sizes = (handmade.Tensor, 48), (handmade.Legacy, 64), (handmade.Versioned, 80)
    assert [(kind, ctypes.sizeof(kind)) for kind, _ in sizes] == list(sizes)
    array = floats(2, 3)
    theirs, ours = exported(array), exported(tensor())
    for name in ("ndim", "code", "bits", "lanes", "device_type", "device_id"):
        assert getattr(theirs.tensor, name) == getattr(ours.tensor, name)


def tensor() -> xd.Tensor:
    return xd.asarray(floats(2, 3))


@pytest.mark.parametrize("wanted", [(1, 0), (1, 3), (1, 99), (2, 0)])
def test_rule_5_the_version_that_is_written_is_the_one_of_the_struct(wanted: Any) -> None:
    managed = exported(tensor(), wanted)
    assert managed.major == 1 and managed.minor <= 3


@BOTH
@pytest.mark.parametrize("has_strides", [True, False])
def test_rule_8_a_scalar_needs_no_shape(version: Any, has_strides: bool) -> None:
    forged = Forged((), version=version, no_strides=not has_strides)
    forged.managed.tensor.shape = None
    forged.floats(1)[0] = 2.5
    ours = xd.from_dlpack(forged.capsule())
    assert (ours.shape, ours.item()) == ((), 2.5)
    assert exported(ours.copy()).tensor.ndim == 0


@pytest.mark.parametrize("shape", [(1,), (2, 3), (2, 1, 4), *EMPTY])
@pytest.mark.parametrize("wanted", [NEW, None])
def test_rule_9_strides_are_written_and_count_elements(shape: Any, wanted: Any) -> None:
    managed = exported(xd.asarray(floats(*shape)), wanted).tensor
    assert managed.strides and extents(managed.shape, managed.ndim) == shape
    if 0 not in shape and 1 not in shape:
        theirs = tuple(step // 4 for step in floats(*shape).strides)
        assert extents(managed.strides, managed.ndim) == theirs


@BOTH
@pytest.mark.parametrize("no_strides", [True, False])
def test_rules_10_11_the_producers_struct_is_not_written(version: Any, no_strides: bool) -> None:
    forged = Forged((2, 3, 4), version=version, no_strides=no_strides, no_deleter=True)
    place = ctypes.addressof(forged.managed), ctypes.sizeof(forged.managed)
    before = ctypes.string_at(*place)
    ours = xd.from_dlpack(forged.capsule())
    assert ours.strides == (12, 4, 1) and ours[1:].copy().shape == (1, 3, 4)
    del ours
    assert ctypes.string_at(*place) == before


@BOTH
def test_rule_12_the_first_element_is_behind_the_offset_also_again(version: Any) -> None:
    forged = Forged((2,), version=version, byte_offset=12)
    forged.floats()[3:5] = [7, 8]
    ours = xd.from_dlpack(forged.capsule())
    for view in (ours, xd.from_dlpack(ours.__dlpack__(max_version=NEW))):
        assert view.tolist() == [7, 8] and view[1:].tolist() == [8]
        managed = exported(view[1:])
        assert managed.tensor.data + managed.tensor.byte_offset == forged.address + 16


OPENCL = next((device for device in xd.devices() if device.type == "opencl"), None)


@pytest.mark.skipif(OPENCL is None, reason="skipped: no OpenCL device")
@pytest.mark.parametrize("own", [True, False], ids=["ours", "imported"])
def test_rule_13_bug_13_nothing_is_added_to_a_handle(own: bool) -> None:
    """A slice keeps the handle and moves the offset, under any owner, and when it comes back."""
    there = tensor().to(OPENCL, copy=True)
    if not own:
        there = xd.from_dlpack(there.__dlpack__(max_version=NEW))
    handle = exported(there).tensor.data
    part = there[1, 1:]
    managed = exported(part).tensor
    assert (managed.data, managed.byte_offset) == (handle, 16)
    back = xd.from_dlpack(part.__dlpack__(max_version=NEW))
    assert (back.cl_mem, back.byte_offset) == (handle, 16) and back.tolist() == [4, 5]


def test_rule_14_own_memory_is_aligned_and_any_other_accepted() -> None:
    for size in (1, 63, 4096, 100_001):
        assert xd.empty(size, dtype="uint8").data_ptr() % 256 == 0
    odd = np.frombuffer(bytearray(16), dtype=np.uint8)[1:13].view(np.float32)
    assert xd.from_dlpack(odd).data_ptr() == odd.ctypes.data
    assert xd.from_dlpack(odd).tolist() == [0, 0, 0]


@BOTH
@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("data", [0, None, 0x10])
def test_rule_15_without_elements_the_address_means_nothing(
    version: Any, shape: Any, data: int | None
) -> None:
    forged = Forged(shape, version=version, data=data)
    ours = xd.from_dlpack(forged.capsule())
    assert not exported(ours.copy()).tensor.data
    assert not exported(xd.zeros(shape)).tensor.data
    assert ours.copy().tolist() == np.zeros(shape).tolist()


@BOTH
@pytest.mark.parametrize(
    ("shape", "strides", "offset", "values"),
    [
        ((3,), (-1,), 8, [2, 1, 0]),
        ((2, 2), (-2, -1), 12, [[3, 2], [1, 0]]),
        ((3,), (0,), 4, [1, 1, 1]),
        ((2, 3), (1, 1), 0, [[0, 1, 2], [1, 2, 3]]),
        ((2, 2), (1, -1), 4, [[1, 0], [2, 1]]),
    ],
)
def test_rule_17_bug_30_strides_of_any_sign_are_represented(
    version: Any, shape: Any, strides: Any, offset: int, values: Any
) -> None:
    forged = Forged(shape, strides=strides, byte_offset=offset, version=version)
    forged.floats()[0:6] = [0, 1, 2, 3, 4, 5]
    ours = xd.from_dlpack(forged.capsule())
    assert ours.strides == strides and ours.tolist() == values
    back: Any = np.from_dlpack(xd.from_dlpack(ours.__dlpack__(max_version=NEW)))
    assert back.tolist() == values and ours.copy().tolist() == values
    for device in xd.devices():
        assert ours.to(device, copy=True).tolist() == values
    del ours, back
    gc.collect()
    assert forged.deleted == 1


def test_rule_19_sixty_four_axes_are_taken_and_one_more_refused() -> None:
    array: Any = np.arange(4.0).reshape((1,) * 62 + (2, 2))
    ours = xd.from_dlpack(array)
    assert ours.shape == array.shape and np.array_equal(np.from_dlpack(ours), array)
    with pytest.raises(BufferError):
        xd.from_dlpack(Forged((1,) * 65).capsule())


@pytest.mark.parametrize(
    ("dtype", "shape", "bytes_"),
    [
        ("float32", (2, 3), 24),
        ("complex128", (3,), 48),
        ("bool", (5,), 5),
        ("uint8", (2, 0), 0),
        ("int4", (3,), 2),
        ("int4", (3, 3), 5),
        ("float6_e2m3fn", (7,), 6),
        ("uint2", (5,), 2),
        ("float4_e2m1fn", (), 1),
    ],
)
def test_rule_20_sizes_round_the_total_up_to_bytes(dtype: str, shape: Any, bytes_: int) -> None:
    ours = xd.zeros(shape, dtype=dtype)
    assert ours.nbytes == bytes_
    assert ours.dtype.bits * ours.size == exported(ours).tensor.bits * ours.size


def test_rule_21_every_code_of_the_header_has_its_dtype() -> None:
    floats8 = [(code, 8) for code in range(7, 15)]
    known = [(0, 32), (1, 16), (2, 64), (4, 16), (5, 64), (6, 8), *floats8, (15, 6), (16, 6)]
    names = set()
    for code, bits in [*known, (17, 4)]:
        ours = xd.from_dlpack(Forged((4,), dtype=(code, bits, 1)).capsule())
        managed = exported(ours).tensor
        assert (managed.code, managed.bits, managed.lanes) == (code, bits, 1)
        names.add(str(ours.dtype))
    assert len(names) == len(known) + 1
    # A handle is passed on, and is no number.
    handles = xd.from_dlpack(Forged((4,), dtype=(3, 64, 1)).capsule())
    assert exported(handles).tensor.code == 3
    with pytest.raises(TypeError, match="no Python value"):
        handles.tolist()


def test_rule_22_bool_is_a_code_of_its_own() -> None:
    for source, dtype in ((np.bool_, (6, 8, 1)), (np.uint8, (1, 8, 1))):
        managed = exported(xd.asarray(np.zeros(3, source))).tensor
        assert (managed.code, managed.bits, managed.lanes) == dtype
    with pytest.raises(BufferError):
        xd.from_dlpack(Forged((8,), dtype=(6, 1, 1)).capsule())


@pytest.mark.parametrize(("name", "bits"), [("complex64", 64), ("complex128", 128)])
def test_rule_23_bits_of_complex_numbers_count_both_halves(name: str, bits: int) -> None:
    ours = xd.asarray(np.zeros(3, name))
    managed = exported(ours).tensor
    assert (managed.code, managed.bits, ours.dtype.bits) == (5, bits, bits)


@BOTH
@pytest.mark.parametrize("dtype", [(2, 32, 4), (1, 8, 16), (0, 16, 2)])
def test_rule_26_lanes_are_kept_or_refused(version: Any, dtype: tuple[int, int, int]) -> None:
    forged = Forged((2,), dtype=dtype, version=version)
    try:
        ours = xd.from_dlpack(forged.capsule())
    except BufferError:
        pass
    else:
        managed = exported(ours.copy()).tensor
        assert (managed.code, managed.bits, managed.lanes) == dtype
        assert ours.nbytes == 2 * dtype[1] * dtype[2] // 8
        with pytest.raises(RuntimeError, match="lanes"):
            np.from_dlpack(ours)
        del ours
    assert forged.deleted == 1


@BOTH
def test_rule_30_every_export_is_deleted_once_and_the_tensor_with_the_last(version: Any) -> None:
    forged = Forged()
    ours = xd.from_dlpack(forged.capsule())
    structs = [handmade.consume(ours.__dlpack__(max_version=version)) for _ in range(5)]
    del ours
    for managed in structs:
        assert forged.deleted == 0
        handmade.delete(managed)
    assert forged.deleted == 1


def poison(address: int, size: int) -> None:
    ctypes.memset(address, 0xA5, size)


@BOTH
def test_rule_32_a_struct_is_not_touched_behind_its_deleter(version: Any) -> None:
    """What the deleter leaves is poison; the next import would fall over it."""
    for _ in range(20):
        forged = Forged(version=version)
        size = ctypes.sizeof(forged.managed)
        address = ctypes.addressof(forged.managed)
        forged.on_delete = functools.partial(poison, address, size)
        ours = xd.from_dlpack(forged.capsule())
        view = ours[1:]
        del ours
        assert view.shape == (1, 3)
        del view
        assert forged.deleted == 1
        assert ctypes.string_at(address, size) == b"\xa5" * size


def refused_exports(ours: xd.Tensor) -> Sequence[dict[str, Any]]:
    return [
        {"stream": 7},
        {"dl_device": (99, 0)},
        {"dl_device": (2, 99), "max_version": NEW},
        {"max_version": (1,)},
        {"copy": "yes"},
        {"version": 70},
    ]


@pytest.mark.parametrize("at", range(6))
def test_rule_37_a_refused_export_leaves_nothing(at: int) -> None:
    forged = Forged()
    ours = xd.from_dlpack(forged.capsule())
    before = sys.getrefcount(ours)
    keywords = refused_exports(ours)[at]
    for _ in range(100):
        with pytest.raises((BufferError, TypeError, ValueError)):
            ours.__dlpack__(**keywords)
    assert sys.getrefcount(ours) == before
    del ours
    assert forged.deleted == 1


def test_rule_37_what_an_old_struct_cannot_say_is_refused() -> None:
    """Padding is a flag, which the struct from before 1.0 lacks."""
    padded = xd.from_dlpack(Forged((4,), dtype=(17, 4, 1), flags=4).capsule())
    assert exported(padded).flags & 4
    with pytest.raises(BufferError):
        padded.__dlpack__()


@BOTH
def test_rules_38_39_40_memory_and_shape_outlive_the_array(version: Any) -> None:
    """Two exports at once, and one is read when array, tensor and the other are gone."""
    array = floats(2, 3) * 1
    ours = xd.from_dlpack(array)
    first, second = (handmade.consume(ours.__dlpack__(max_version=version)) for _ in range(2))
    assert ctypes.addressof(first) != ctypes.addressof(second)
    address = array.ctypes.data
    del array, ours
    handmade.delete(first)
    gc.collect()
    [xd.zeros((2, 3)) for _ in range(100)]
    assert second.tensor.data + second.tensor.byte_offset == address
    assert extents(second.tensor.shape, 2) == (2, 3)
    assert extents(second.tensor.strides, 2) == (3, 1)
    values = (ctypes.c_float * 6).from_address(address)
    assert list(values) == [0, 1, 2, 3, 4, 5]
    handmade.delete(second)


RETIRED = """
import ctypes, sys
import crossdock as xd, handmade
from accelerators import Accelerators
from pathlib import Path

loaded = Accelerators(Path({library!r}))
there = xd.zeros(16, dtype="uint8", device="cuda:1")
kept = xd.zeros(16, dtype="uint8", device="cuda:2")
managed = handmade.consume(there.__dlpack__(max_version=(1, 3)))
del there
loaded.plugin.retire()
assert managed.tensor.ndim == 1
handmade.delete(managed)
try:
    xd.zeros(16, device="cuda:1")
except (xd.DeviceError, BufferError):
    print("retired")
del kept
"""


def test_rule_41_an_export_outlives_the_plugin_that_it_came_from(
    child: Child, accelerators_library: Any
) -> None:
    """Its deleter is code of the plugin's library, which is never unloaded."""
    run = child(RETIRED.format(library=str(accelerators_library)))
    assert (run.returncode, run.stdout) == (0, "retired\n"), run.stderr
