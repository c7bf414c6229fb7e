"""What is copied, where it then lies, and what may be written (rules 53 to 58, 62, 77 to 87)."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import crossdock as xd
import numpy as np
import pytest
from accelerators import NAMES, Accelerators
from handmade import Forged, Producer, exported

NEW = (1, 3)
READ_ONLY, IS_COPIED = 1, 2
CPU = (1, 0)


def six() -> Any:
    return np.arange(6, dtype=np.float32)


def read(managed: Any) -> list[float]:
    address = managed.tensor.data + managed.tensor.byte_offset
    return list((ctypes.c_float * managed.tensor.shape[0]).from_address(address))


# The producer.


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("name", ["cpu:0", *NAMES])
def test_rule_53_a_tensor_stays_on_its_own_device(
    accelerators: Accelerators, name: str, copy: bool | None
) -> None:
    there = xd.asarray(six()).to(name)
    address = there.data_ptr()
    for dl_device in (None, there.__dlpack_device__()):
        managed = exported(there, dl_device=dl_device, copy=copy)
        place = managed.tensor.data, managed.tensor.device_type, managed.tensor.device_id
        assert place == (address, *there.__dlpack_device__())
        assert not managed.flags & IS_COPIED


@pytest.mark.parametrize("name", NAMES)
def test_rule_54_the_cpu_is_offered_by_a_copy_and_never_where_that_is_forbidden(
    accelerators: Accelerators, name: str
) -> None:
    there = xd.asarray(six()).to(name)
    for copy in (None, True):
        managed = exported(there, dl_device=CPU, copy=copy)
        assert (managed.tensor.device_type, managed.tensor.device_id) == CPU
        assert read(managed) == six().tolist() and managed.flags & IS_COPIED
    array: Any = np.from_dlpack(there, device="cpu")
    assert array.tolist() == six().tolist()
    with pytest.raises(BufferError):
        exported(there, dl_device=CPU, copy=False)
    with pytest.raises(BufferError):
        np.from_dlpack(there, device="cpu", copy=False)


def test_rule_54_what_the_host_reaches_is_offered_without_a_copy() -> None:
    for device in xd.devices():
        there = xd.asarray(six()).to(device)
        if xd.explain(there, "cpu").kind == "alias":
            managed = exported(there, dl_device=CPU, copy=False)
            assert not managed.flags & IS_COPIED and read(managed) == six().tolist()


@pytest.mark.parametrize("dl_device", [(2, 7), (7, 0), (99, 0), (0, 0), (-1, -1)])
@pytest.mark.parametrize("copy", [None, True, False])
def test_rule_55_a_device_that_nothing_serves_is_a_buffer_error(
    dl_device: tuple[int, int], copy: bool | None
) -> None:
    with pytest.raises(BufferError):
        exported(xd.asarray(six()), dl_device=dl_device, copy=copy)


@pytest.mark.parametrize("name", ["cpu:0", *NAMES])
def test_rules_56_87_a_copy_is_nobody_elses(accelerators: Accelerators, name: str) -> None:
    there = xd.asarray(six()).to(name)
    managed = exported(there, copy=True)
    assert managed.flags & IS_COPIED and not managed.flags & READ_ONLY
    assert managed.tensor.data != there.data_ptr()
    again = exported(there, copy=True)
    assert again.tensor.data not in (there.data_ptr(), managed.tensor.data)


def test_rule_87_what_came_as_a_copy_is_written_in_place_and_is_no_copy_when_passed_on() -> None:
    producer = Producer(Forged((6,), flags=IS_COPIED))
    ours = xd.from_dlpack(producer, copy=True)
    assert not ours.readonly
    ours[...] = six()
    assert list(producer.forged.floats()) == six().tolist()
    assert not exported(ours).flags & IS_COPIED


def test_rule_62_a_copy_that_finds_no_memory_is_a_memory_error() -> None:
    forged = Forged((1 << 50,), strides=(0,))
    ours = xd.from_dlpack(forged.capsule())
    for copy in (lambda: ours.copy(), lambda: exported(ours, copy=True)):
        with pytest.raises(MemoryError):
            copy()
    del ours
    assert forged.deleted == 1
    with pytest.raises(MemoryError):
        xd.from_dlpack(Producer(Forged((1 << 50,), strides=(0,))), copy=True)


def test_rule_62_a_device_without_memory_is_a_memory_error(accelerators: Accelerators) -> None:
    with pytest.raises(MemoryError):
        xd.empty(1 << 31, dtype="uint8", device="cuda:0")


# The consumer.


@pytest.mark.parametrize("name", ["cpu:0", *NAMES])
def test_rule_77_without_a_device_a_tensor_stays_where_it_is(
    accelerators: Accelerators, name: str
) -> None:
    there = xd.asarray(six()).to(name)

    class Relays:
        def __dlpack_device__(self) -> tuple[int, int]:
            return there.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> Any:
            return there.__dlpack__(**keywords)

    ours = xd.from_dlpack(Relays())
    assert (ours.device, ours.data_ptr()) == (there.device, there.data_ptr())


def test_rule_78_where_both_fail_it_is_an_error() -> None:
    class Refuses(Producer):
        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError(f"never {sorted(keywords)}")

    others = [device for device in xd.devices() if device.type != "cpu"]
    if not others:
        pytest.skip("no device beside the CPU is here")
    with pytest.raises(BufferError, match="never.*dl_device"):
        xd.from_dlpack(Refuses(Forged()), device=others[0])


@pytest.mark.parametrize("flags", [READ_ONLY, None])
def test_rule_84_what_is_read_only_is_written_by_no_way(flags: int | None) -> None:
    """Neither by assignment nor by a fill, nor through a view, a buffer, NumPy or an export."""
    forged = Forged((6,), flags=flags or 0, version=NEW if flags else None)
    ours = xd.from_dlpack(forged.capsule())
    for view in (ours, ours[2:], ours.reshape((2, 3)), xd.from_dlpack(ours), xd.asarray(ours)):
        assert view.readonly
        with pytest.raises((BufferError, ValueError, TypeError)):
            view[...] = 1
        with pytest.raises((BufferError, ValueError, TypeError)):
            view.fill(1)
        assert memoryview(view).readonly and not view.numpy().flags.writeable
        assert not np.from_dlpack(view).flags.writeable
        assert view.__array_interface__["data"][1]
        assert exported(view).flags & READ_ONLY
        with pytest.raises(BufferError):
            view.__dlpack__()
        assert not view.copy().readonly
    assert list(forged.floats()) == [0] * 6


# Which copy is made.

COSTS = """
import json
from pathlib import Path
import crossdock as xd
from accelerators import Accelerators

costs, library, trace = map(Path, {paths!r})
loaded = Accelerators(library)
tensor = xd.ones(1 << 16, dtype="uint8", device="cuda:0")
if not costs.exists():
    # A look measures all ways.
    xd.explain(tensor, "cpu")
else:
    with xd.trace(trace):
        tensor.to("cpu", copy=True)
    events = json.loads(trace.read_text())
    print([event["args"]["route"] for event in events if event.get("name") == "move"])
"""


def test_a_forced_copy_takes_the_cheapest_way_by_measured_costs(
    child: Any, accelerators_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`copy=True` was the direct way wherever there was one."""
    costs = tmp_path / "costs.json"
    monkeypatch.setenv("CROSSDOCK_COSTS", str(costs))
    paths = [str(costs), str(accelerators_library), str(tmp_path / "trace.json")]
    run = child(COSTS.format(paths=paths))
    assert run.returncode == 0, run.stderr
    for slow, cheap in (("by_source", "staged"), ("staged", "direct")):
        kept = json.loads(costs.read_text())
        for record in kept["records"]:
            for point in record["costs"][slow] or []:
                point["seconds"] += 5 if slow == "by_source" else 500
        costs.write_text(json.dumps(kept))
        run = child(COSTS.format(paths=paths))
        assert (run.returncode, run.stdout) == (0, f"['{cheap}']\n"), run.stderr


CLASSES = """
from pathlib import Path
import crossdock as xd
from accelerators import Accelerators

loaded = Accelerators(Path({library!r}))
whole = xd.ones((64, 128), dtype="uint8", device="cuda:0")
for tensor in (whole, whole[:, :64], whole[:, ::2]):
    route = xd.explain(tensor, "cpu", copy=True)
    print(next(line for line in str(route).splitlines() if "cost:" in line).partition(" for ")[2])
"""


def test_an_explanation_says_for_which_layouts_its_cost_was_measured(
    child: Any, accelerators_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was that of a compact tensor, whatever was moved."""
    monkeypatch.setenv("CROSSDOCK_COSTS", "memory")
    expected = [[source, "compact memory"] for source in ("compact", "pitched", "scattered")]
    # A busy machine may measure too little.
    for _ in range(10):
        run = child(CLASSES.format(library=str(accelerators_library)))
        found = [line.split(" to ") for line in run.stdout.splitlines()]
        if run.returncode or found == expected:
            break
    assert (run.returncode, found) == (0, expected), run.stderr
