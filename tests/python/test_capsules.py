"""Capsules: their names, who releases what, and how often (rules 42 to 48)."""

import copy
import ctypes
import gc
import pickle
import threading
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest

BOTH = pytest.mark.parametrize("version", [(1, 3), None], ids=["versioned", "legacy"])


def tensor() -> xd.Tensor:
    """Six floats that may be written."""
    return xd.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_rule_42_a_capsule_is_named_after_its_struct() -> None:
    assert handmade.name_of(tensor().__dlpack__()) == b"dltensor"
    assert handmade.name_of(tensor().__dlpack__(max_version=(1, 3))) == b"dltensor_versioned"


@BOTH
def test_rule_43_a_consumed_capsule_is_renamed(version: Any) -> None:
    capsule = handmade.Forged(version=version).capsule()
    name = handmade.name_of(capsule)
    xd.from_dlpack(capsule)
    assert handmade.name_of(capsule) == b"used_" + name


@pytest.mark.parametrize("version", [None, (1, 3)])
def test_rule_44_an_exception_in_flight_survives_a_dying_capsule(version: Any) -> None:
    """The capsule lies on the interpreter's stack, which is cleared while the exception is set."""
    forged = handmade.Forged(on_delete=lambda: [].clear())

    def dies_with_a_capsule() -> Any:
        return [xd.from_dlpack(forged.capsule()).__dlpack__(max_version=version), 1 / 0]

    try:
        dies_with_a_capsule()
    except ZeroDivisionError:
        assert forged.deleted == 1
    else:
        raise AssertionError("the exception is gone")


def test_rule_44_an_exception_in_flight_survives_a_python_deleter() -> None:
    forged = handmade.Forged(on_delete=lambda: [str(1 / 2)].clear())
    held = [xd.from_dlpack(forged.capsule())]
    generator = ([held.pop(), 1 / 0] for _ in range(1))
    with pytest.raises(ZeroDivisionError):
        next(generator)
    gc.collect()
    assert forged.deleted == 1


@pytest.mark.parametrize("name", [b"dltensor_version", b"", b"other", b"used_dltensor"])
def test_rule_45_a_capsule_of_another_name_is_refused_and_untouched(name: Any) -> None:
    forged = handmade.Forged()
    capsule = forged.capsule(name)
    with pytest.raises(BufferError):
        xd.from_dlpack(capsule)
    assert handmade.name_of(capsule) == name
    assert forged.deleted == 0


@pytest.mark.parametrize("thing", [None, 3, "x", object(), b"dltensor"])
def test_rule_45_what_is_no_capsule_is_no_crash(thing: Any) -> None:
    with pytest.raises(AttributeError):
        xd.from_dlpack(thing)

    class Gives:
        def __dlpack_device__(self) -> Any:
            return 1, 0

        def __dlpack__(self, **_keywords: Any) -> Any:
            return thing

    with pytest.raises(BufferError, match="no DLPack capsule"):
        xd.from_dlpack(Gives())


@pytest.mark.parametrize("version", [None, (1, 3)])
def test_rule_46_a_capsule_that_nobody_consumes_releases_its_tensor(version: Any) -> None:
    forged = handmade.Forged()
    ours = xd.from_dlpack(forged.capsule())
    capsule = ours.__dlpack__(max_version=version)
    del ours
    assert forged.deleted == 0
    del capsule
    assert forged.deleted == 1


@BOTH
def test_rule_47_a_raw_capsule_is_taken_once(version: Any) -> None:
    forged = handmade.Forged(version=version)
    capsule = forged.capsule()
    first = xd.from_dlpack(capsule)
    with pytest.raises(BufferError, match="taken before"):
        xd.from_dlpack(capsule)
    assert forged.deleted == 0
    del first
    assert forged.deleted == 1


def test_rule_48_a_capsule_is_neither_pickled_nor_copied() -> None:
    capsule = tensor().__dlpack__()
    for refused in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            refused(capsule)


def test_bug_1_a_deleter_may_run_on_a_thread_of_its_own() -> None:
    forged = handmade.Forged()
    managed = handmade.consume(xd.from_dlpack(forged.capsule()).__dlpack__(max_version=(1, 3)))
    thread = threading.Thread(target=handmade.delete, args=(managed,))
    thread.start()
    thread.join()
    assert forged.deleted == 1


def test_bug_1_a_native_thread_without_the_gil_gives_a_numpy_array_back() -> None:
    import sys

    array = np.zeros(4)
    before = sys.getrefcount(array)
    managed = handmade.consume(xd.from_dlpack(array).__dlpack__(max_version=(1, 3)))
    assert sys.getrefcount(array) > before
    # The C library starts the thread: nothing of it is attached to the interpreter.
    libc = ctypes.CDLL(None)
    thread, deleter = ctypes.c_ulong(), ctypes.cast(managed.deleter, ctypes.c_void_p)
    argument = ctypes.c_void_p(ctypes.addressof(managed))
    assert libc.pthread_create(ctypes.byref(thread), None, deleter, argument) == 0
    assert libc.pthread_join(thread, None) == 0
    assert sys.getrefcount(array) == before


@BOTH
@pytest.mark.parametrize("fault", ["device", "dtype", "shape", "ndim", "version"])
def test_bug_4_a_failed_import_deletes_once(version: Any, fault: Any) -> None:
    if fault == "version" and version is None:
        pytest.skip("a legacy struct has no version")
    forged = {
        "device": lambda: handmade.Forged(version=version, device=(2, 7)),
        "dtype": lambda: handmade.Forged(version=version, dtype=(200, 3, 1)),
        "shape": lambda: handmade.Forged(shape=(2, -3), version=version),
        "ndim": lambda: handmade.Forged(version=version, ndim=1 << 30),
        "version": lambda: handmade.Forged(version=(99, 0)),
    }[fault]()
    capsule = forged.capsule()
    with pytest.raises(BufferError):
        xd.from_dlpack(capsule)
    assert forged.deleted == 1
    assert handmade.name_of(capsule).startswith(b"used_")


@BOTH
def test_bug_5_an_empty_tensor_is_released(version: Any) -> None:
    forged = handmade.Forged((0, 3), version=version, data=0)
    ours = xd.from_dlpack(forged.capsule())
    assert ours.shape == (0, 3)
    del ours
    assert forged.deleted == 1


@BOTH
def test_bug_6_a_capsule_consumed_twice_is_deleted_once(version: Any) -> None:
    forged = handmade.Forged(version=version)
    producer = handmade.Producer(forged)
    capsule = forged.capsule()
    producer.__class__ = type("Same", (handmade.Producer,), {"__dlpack__": lambda s, **k: capsule})
    kept = xd.from_dlpack(producer)
    with pytest.raises(BufferError):
        xd.from_dlpack(producer)
    del kept
    assert forged.deleted == 1


@BOTH
def test_bug_7_every_import_and_every_dropped_capsule_is_deleted(version: Any) -> None:
    count = 0

    def deleted() -> None:
        nonlocal count
        count += 1

    for _ in range(1000):
        forged = handmade.Forged(version=version, size=64, on_delete=deleted)
        ours = xd.from_dlpack(forged.capsule())
        unused = ours.__dlpack__(max_version=(1, 3))
        del ours, unused
    assert count == 1000


def test_bug_8_the_producer_may_die_before_and_after_its_consumer() -> None:
    for consumer_first in (True, False):
        forged = handmade.Forged()
        ours = xd.from_dlpack(forged.capsule())
        capsule = ours.__dlpack__(max_version=(1, 3))
        theirs = xd.from_dlpack(capsule)
        if consumer_first:
            del theirs, capsule
            assert forged.deleted == 0
            del ours
        else:
            del ours
            assert forged.deleted == 0 and theirs.shape == (2, 3)
            del theirs, capsule
        assert forged.deleted == 1


def test_bug_34_each_capsule_has_a_struct_of_its_own() -> None:
    ours = tensor()
    capsules = [ours.__dlpack__(max_version=(1, 3)) for _ in range(10)]
    assert len({ctypes.addressof(handmade.struct_in(capsule)) for capsule in capsules}) == 10


def test_bug_34_threads_export_the_same_tensor() -> None:
    ours, failures = tensor(), []

    def exchange() -> None:
        try:
            for _ in range(2000):
                assert np.from_dlpack(ours)[1, 2] == 5
                xd.from_dlpack(ours)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=exchange) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_tensor_without_a_deleter_is_taken() -> None:
    ours = xd.from_dlpack(handmade.Forged(no_deleter=True).capsule())
    assert ours.shape == (2, 3)


@BOTH
def test_a_consumer_may_run_the_deleter_and_leave_the_name(version: Any) -> None:
    """PyTorch does so with a tensor on a device that it does not know."""
    forged = handmade.Forged()
    for _ in range(100):
        theirs = xd.from_dlpack(handmade.Forged().capsule())
        capsule = theirs.__dlpack__(max_version=(1, 3))
        handmade.delete(handmade.struct_in(capsule))
        # The next export may get the same block, and is not the capsule's to release.
        another = xd.from_dlpack(forged.capsule()).__dlpack__(max_version=(1, 3))
        del capsule
        gc.collect()
        assert forged.deleted == 0
        del another
        assert forged.deleted == 1
        forged.deleted = 0
    ours = tensor().copy().__dlpack__(max_version=version)
    managed = handmade.struct_in(ours)
    handmade.delete(managed)
    # Once more does no harm, and nobody takes it.
    handmade.delete(managed)
    with pytest.raises(BufferError):
        xd.from_dlpack(ours)


@BOTH
def test_a_consumer_may_clear_the_destructor_and_keep_the_name(version: Any) -> None:
    """nanobind does so (rule 43): the deleter is the only release."""
    set_destructor = ctypes.pythonapi.PyCapsule_SetDestructor
    set_destructor.argtypes = [ctypes.py_object, ctypes.c_void_p]
    forged = handmade.Forged()
    there = xd.from_dlpack(forged.capsule())
    capsule = there.__dlpack__(max_version=version) if version else there.copy().__dlpack__()
    managed = handmade.struct_in(capsule)
    assert set_destructor(capsule, None) == 0
    del capsule, there
    assert forged.deleted == (0 if version else 1)
    handmade.delete(managed)
    assert forged.deleted == 1


def test_capsules_that_were_left_end_on_many_threads() -> None:
    errors: list[BaseException] = []

    def leave() -> None:
        try:
            for number in range(300):
                capsule = xd.full((3,), float(number)).__dlpack__(max_version=(1, 3))
                handmade.delete(handmade.struct_in(capsule))
                kept = xd.full((3,), float(number)).__dlpack__(max_version=(1, 3))
                del capsule
                assert xd.from_dlpack(kept).tolist() == [float(number)] * 3
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=leave) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
