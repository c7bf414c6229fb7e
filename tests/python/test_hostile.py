"""Structs that lie: an exception each time, one call of the deleter, and Python lives on."""

from __future__ import annotations

import ctypes
import gc
import random
import threading
from typing import Any

import crossdock as xd
import pytest
import structs
from conftest import Child
from liars import PADDED, Forged, forge, name_of

# No page is ever mapped here.
WILD = 0x10
HUGE = 1 << 62

Fields = dict[str, Any]

MALFORMED: dict[str, Fields] = {
    "a major version of the future": {"version": (99, 0)},
    "major version 0": {"version": (0, 9)},
    "a negative rank": {"ndim": -1},
    "a rank of 65": {"shape": (1,) * 65},
    "a rank of two billion": {"ndim": 2**31 - 1, "shape": None},
    "no shape": {"ndim": 2, "shape": None},
    "a negative extent": {"shape": (2, -3)},
    "the least extent": {"shape": (-(2**63),)},
    "a size that overflows": {"shape": (HUGE, HUGE)},
    "a size that overflows in bytes": {"shape": (HUGE,), "dtype": (2, 64, 1)},
    "strides that overflow": {"shape": (2, 2), "strides": (HUGE, HUGE)},
    "no memory": {"data": None},
    "an offset that overflows": {"byte_offset": 2**64 - 4},
    "a dtype without bits": {"dtype": (2, 0, 1)},
    "a dtype without lanes": {"dtype": (2, 32, 0)},
    "a dtype of the future": {"dtype": (99, 32, 1)},
    "a bool of one bit": {"dtype": (6, 1, 1)},
    "a float4 of eight bits": {"dtype": (17, 8, 1)},
    "a float of seven bits": {"dtype": (2, 7, 1)},
    "a device type of the future": {"device": (99, 0)},
    "device type 0": {"device": (0, 0)},
    "a negative device type": {"device": (-1, 0)},
    "an OpenCL handle that is none": {"device": (4, 0), "data": WILD},
    "an OpenCL handle that is a host address": {"device": (4, 0)},
}
VERSIONED_ONLY = {"a major version of the future", "major version 0"}
CASES = [
    pytest.param(fields, versioned, id=f"{name}, {'versioned' if versioned else 'legacy'}")
    for name, fields in MALFORMED.items()
    for versioned in (True, False)
    if versioned or name not in VERSIONED_ONLY
]


@pytest.mark.parametrize(("fields", "versioned"), CASES)
def test_a_malformed_tensor_is_refused_and_given_back(fields: Fields, versioned: bool) -> None:
    """Rules 6, 16, 24, 27, 36: an exception, the capsule is used up, one call of the deleter."""
    forged = forge(versioned=versioned, **fields)
    capsule = forged.capsule
    with pytest.raises((BufferError, TypeError, ValueError)):
        xd.from_dlpack(capsule)
    assert forged.deleted == 1
    assert name_of(capsule).startswith(b"used_")
    with pytest.raises((BufferError, TypeError, ValueError)):
        xd.from_dlpack(forge(versioned=versioned, **fields).producer())


@pytest.mark.parametrize("versioned", [True, False])
def test_a_malformed_tensor_without_a_deleter_is_refused(versioned: bool) -> None:
    """Rule 31: a deleter of NULL is not called."""
    with pytest.raises(BufferError):
        xd.from_dlpack(forge(versioned=versioned, data=None, deleter=False).capsule)


@pytest.mark.parametrize("device", [(1, 1), (1, -1), (1, 2**31 - 1)])
def test_host_memory_under_any_id_is_the_hosts_or_refused(device: tuple[int, int]) -> None:
    """Rule 70: the host has one device."""
    forged = forge(device=device)
    try:
        tensor = xd.from_dlpack(forged.capsule)
        assert str(tensor.device) == "cpu:0"
        del tensor
    except BufferError:
        pass
    assert forged.deleted == 1


def test_fields_without_meaning_may_be_anything() -> None:
    """Rules 7 and 18: any minor version, and any stride of an extent of 1."""
    xd.from_dlpack(forge(version=(1, 99)).capsule)
    strided = xd.from_dlpack(forge(shape=(1, 4), strides=(-(2**63), 1)).capsule)
    assert strided.shape == (1, 4)


def test_a_struct_is_read_once() -> None:
    """A producer that changes its struct after the import changes nothing of ours."""
    forged = forge(shape=(2, 3))
    tensor = xd.from_dlpack(forged.capsule)
    forged.struct.tensor.ndim = 1 << 20
    forged.struct.tensor.shape = ctypes.cast(WILD, structs.NUMBERS)
    forged.struct.tensor.data = WILD
    assert tensor.shape == (2, 3)
    copied = xd.from_dlpack(tensor, copy=True)
    assert copied.shape == (2, 3)
    del tensor, copied
    gc.collect()
    assert forged.deleted == 1


NUMBERS = [0, 1, 2, 3, 4, 8, 32, 64, 255, 2**31 - 1, -1, -(2**31), HUGE, -HUGE, 2**63 - 1, -(2**63)]


def test_headers_of_garbage_are_taken_or_refused_and_given_back() -> None:
    """Any numbers in every field: the deleter runs once, and nothing is read that is not there."""
    choose = random.Random(4)
    for _ in range(5_000):
        rank = choose.randrange(5)
        forged = forge(
            versioned=choose.random() < 0.5,
            shape=[choose.choice(NUMBERS) for _ in range(rank)],
            strides=choose.choice([None, [choose.choice(NUMBERS) for _ in range(rank)]]),
            dtype=(choose.randrange(256), choose.choice([1, 4, 8, 32, 255]), choose.randrange(3)),
            device=(choose.randrange(-1, 20), choose.randrange(-1, 3)),
            data=choose.choice([None, -1, WILD, 2**64 - 1]),
            byte_offset=choose.choice([0, 1, 8, HUGE, 2**64 - 1]),
            version=(choose.choice([0, 1, 1, 1, 2, 2**32 - 1]), choose.randrange(5)),
            flags=choose.choice([0, 1, 2, 4, 7, 2**64 - 1]),
        )
        try:
            tensor = xd.from_dlpack(forged.capsule)
            tensor.__dlpack__(max_version=(1, 3))
            del tensor
        except (BufferError, TypeError, ValueError, MemoryError):
            pass
        assert forged.deleted == 1, vars(forged.struct)


# Deleters.


def test_a_deleter_may_use_the_package_again() -> None:
    """A deleter is foreign code: it may import, export and drop."""
    forged, second = forge(), forge()

    def again() -> None:
        xd.from_dlpack(second.capsule)

    forged.when_deleted = again
    tensor = xd.from_dlpack(forged.capsule)
    del tensor
    assert (forged.deleted, second.deleted) == (1, 1)


def test_many_threads_race_for_one_capsule_and_one_gets_it() -> None:
    for _ in range(50):
        forged = forge()
        capsule = forged.capsule
        gate = threading.Barrier(4)
        got: list[object] = []

        def race() -> None:
            gate.wait()
            try:
                got.append(xd.from_dlpack(capsule))
            except BufferError:
                pass

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        got.clear()
        assert forged.deleted == 1


AT_EXIT = """
import ctypes, sys
import crossdock as xd
from liars import forge
from structs import DELETER

# A deleter that is no Python, and memory that is never given back.
forged = forge(versioned={versioned})
forged.struct.deleter = ctypes.cast(ctypes.CDLL(None).labs, DELETER)
for kept in (forged.struct, forged.memory):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
tensor = xd.from_dlpack(forged.capsule)
capsule = tensor.__dlpack__(max_version=(1, 3))

class Late:
    def __init__(self):
        self.kept = tensor, capsule, xd.devices(), xd.plugins()

sys.modules["late"] = late = Late()
late.late = late
print("done")
"""


@pytest.mark.parametrize("versioned", [True, False])
def test_tensors_that_outlive_the_interpreter_are_harmless(child: Child, versioned: bool) -> None:
    """Rule 34, bug 2."""
    for _ in range(5):
        run = child(AT_EXIT.format(versioned=versioned))
        assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


def test_a_padded_flag_on_whole_bytes_changes_nothing() -> None:
    """Rule 25: the flag speaks of packed types only."""
    assert xd.from_dlpack(forge(flags=PADDED).capsule).shape == (2, 3)


def test_unknown_flags_are_accepted() -> None:
    """Rule 7: what a newer minor version may say is no error."""
    assert isinstance(forge(), Forged)
    assert xd.from_dlpack(forge(version=(1, 9), flags=1 << 40).capsule).shape == (2, 3)
