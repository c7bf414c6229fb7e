"""Memory of Python objects: who keeps it, and who gives it back, on which thread."""

import array
import concurrent.futures
import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest
import test_exchange_table


class Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned` as far as its deleter."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


# A capsule does not copy its name.
USED = b"used_dltensor_versioned"


class Owner(bytearray):
    """A buffer that can be watched."""


def managed_of(tensor: Any) -> Any:
    """The tensor's struct, taken out of its capsule."""
    capsule = tensor.__dlpack__(max_version=(1, 3))
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    assert api.PyCapsule_SetName(capsule, USED) == 0
    return Versioned.from_address(pointer), pointer


def test_a_deleter_on_a_thread_that_is_not_attached_gives_the_buffer_back() -> None:
    """Rule 33, bug 1: ctypes detaches the thread while it calls the deleter."""
    owner = Owner(64)
    alive = weakref.ref(owner)
    before = xd._crossdock._counted_leaks()
    managed, pointer = managed_of(xd.asarray(owner))
    del owner
    gc.collect()
    assert alive() is not None
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(managed.deleter, pointer).result()
    gc.collect()
    assert alive() is None and xd._crossdock._counted_leaks() == before


class Array(np.ndarray[Any, Any]):
    """An array that can be watched."""


class Described:
    """What has `__array_interface__` alone, and can be watched."""

    def __init__(self, array: Any) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


OWNERS: dict[str, Callable[[], Any]] = {
    "a buffer": lambda: Owner(64),
    "an array": lambda: np.zeros(8).view(Array),
    "an interface": lambda: Described(np.zeros(8)),
}
CALLS: dict[str, Any] = {
    "with the GIL": ctypes.PYFUNCTYPE(None, ctypes.c_void_p),
    "without the GIL": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("export", ["versioned", "legacy", "by the table"])
def test_bug_36_every_deleter_runs_with_and_without_the_gil(
    export: str, owner: str, call: str
) -> None:
    source = OWNERS[owner]()
    alive, tensor = weakref.ref(source), xd.asarray(source)
    if export == "by the table":
        managed = test_exchange_table.exported(tensor)[1]
    else:
        version = (1, 3) if export == "versioned" else None
        managed = handmade.consume(tensor.__dlpack__(max_version=version))
    del source, tensor
    gc.collect()
    assert alive() is not None
    deleter = ctypes.cast(managed.deleter, ctypes.c_void_p).value
    CALLS[call](deleter)(ctypes.addressof(managed))
    gc.collect()
    assert alive() is None


def test_threads_import_index_and_drop_the_same_memory() -> None:
    """Rule 35."""
    owner = Owner(8 * 100)
    numbers: Any = np.frombuffer(owner, np.int64)
    numbers[:] = range(100)

    def work(first: Any) -> Any:
        for turn in range(300):
            tensor = xd.asarray(memoryview(numbers))
            part = tensor[first::7]
            assert part.tolist() == list(range(first, 100, 7)), turn
            assert memoryview(part)[0] == first
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    before = sys.getrefcount(owner)
    gc.collect()
    assert sys.getrefcount(owner) <= before
    del numbers
    gc.collect()
    owner.append(1)


def test_a_refused_buffer_is_given_back() -> None:
    """Bug 3."""
    for source in (array.array("u", "ab"), memoryview(bytearray(8)).cast("c")):
        before = sys.getrefcount(source)
        for _ in range(100):
            with pytest.raises(BufferError):
                xd.asarray(source)
        assert sys.getrefcount(source) == before
    short = bytearray(3)
    with pytest.raises(ValueError, match="more than"):
        xd._crossdock._from_bytes(short, "int32", [1])
    short.append(1)


@pytest.mark.ends
@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork")
def test_a_forked_child_reads_and_releases_host_tensors() -> None:
    """Rule 130."""
    program = textwrap.dedent(
        """
        import os, sys
        import crossdock as xd
        kept = xd.asarray(bytearray(b"abc"))
        view = memoryview(kept)
        child = os.fork()
        if child == 0:
            ok = view.tolist() == [97, 98, 99]
            view.release()
            del kept
            sys.exit(not ok)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.ends
@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork")
def test_a_forked_child_is_told_what_a_program_in_python_can_do() -> None:
    program = textwrap.dedent(
        """
        import os
        import crossdock as xd
        device = xd.device("cpu")
        child = os.fork()
        if child == 0:
            xd.zeros(3)
            try:
                xd.zeros(3, device=device)
            except xd.DeviceError as error:
                print(error)
        else:
            os.waitpid(child, 0)
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    hint = (
        '(name the device anew in the child, as in `xd.device("cpu:0")`; where the parent started its '
        "driver, start the process by `spawn`)\n"
    )
    assert ended.stdout.endswith(hint), ended.stdout + ended.stderr


def test_nothing_else_is_imported_for_what_needs_nothing_else() -> None:
    program = textwrap.dedent(
        """
        import sys, tempfile, os
        before = set(sys.modules)
        import crossdock as xd
        tensor = xd.asarray([[1.5, 2], [3, 4]])
        assert xd.asarray(b"abc").tolist() == [97, 98, 99]
        assert tensor.tolist() == [[1.5, 2.0], [3.0, 4.0]] and "1.5" in repr(tensor)
        assert all(tensor.to(device).tolist() == tensor.tolist() for device in xd.devices())
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.npy", "a.npz", "a.safetensors"):
                path = os.path.join(folder, name)
                xd.save(path, tensor if name == "a.npy" else {"x": tensor})
                loaded = xd.load(path)
                loaded = loaded if name == "a.npy" else loaded["x"]
                assert loaded.tolist() == tensor.tolist()
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        foreign = new - set(sys.stdlib_module_names) - {"crossdock"}
        assert not foreign, foreign
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_one_can_wait_until_what_a_stream_used_is_given_back() -> None:
    """A buffer that is dropped while a copy of it runs is back once the releases are done."""
    owner = Owner(1 << 24)
    alive = weakref.ref(owner)
    stream = xd.Stream("cpu:0")
    copied = xd.asarray(owner).to("cpu:0", copy=True, stream=stream)
    del owner
    xd.wait_for_releases(timeout=60)
    assert alive() is None
    assert copied.shape == (1 << 24,)
    with pytest.raises(ValueError, match="timeout"):
        xd.wait_for_releases(timeout=-1)


CHAIN = """
import sys, threading
import numpy as np
import crossdock as xd

threading.stack_size(256 << 10)
tensor = xd.zeros(4)
for _ in range(20000):
    tensor = xd.asarray(np.asarray(tensor))
kept = [tensor]
del tensor
thread = threading.Thread(target=kept.clear)
thread.start()
thread.join()
print("ended")
"""


def test_a_long_chain_of_imports_ends_on_a_small_stack(child: Any) -> None:
    run = child(CHAIN)
    assert (run.returncode, run.stdout) == (0, "ended\n"), run.stderr
