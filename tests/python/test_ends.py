"""The ends of plain scripts: whatever threads of ours and others do then, Python ends as it would."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

RUNS = 20

# While the interpreter ends, its lock is let go for a moment, and every thread that wants it comes.
SETUP = """
import sys, threading, time
sys.path[:0] = {path!r}

class End:
    def __init__(self):
        self.sleep = time.sleep
    def __del__(self):
        self.sleep(0.1)
sys.modules["the end"] = End()

import crossdock as xd, handmade, numpy as np

xd.devices()

def ever(*works):
    def loop(work):
        while True:
            work()
    for work in works:
        threading.Thread(target=loop, args=(work,), daemon=True).start()
"""

ENDS = {
    "a loop of copies to a device": """
        s = xd.Stream("opencl:0")
        for _ in range(300):
            xd.from_dlpack(np.zeros(1000, "f4")).to("opencl:0", copy=True, stream=s)
    """,
    "threads in methods that are written in Python": """
        t = xd.zeros((50, 50))
        def assign():
            t[1, 2:7] = 3.0
        ever(lambda: t.fill(1.0), t.tolist, lambda: repr(t), assign, lambda: f"{t[0, 0]:.2f}")
    """,
    "threads in code that is asked by us": """
        s = xd.Stream("opencl:0")
        def slowly(answer):
            for _ in range(1000):
                pass
            return answer
        class Producer:
            x = np.zeros(3)
            def __dlpack_device__(self):
                return slowly(self.x.__dlpack_device__())
            def __dlpack__(self, **keywords):
                return slowly(self.x.__dlpack__(**keywords))
        class Native:
            ptr = property(lambda self: slowly(s.native_handle))
        class Owner(bytearray):
            def __del__(self):
                slowly(None)
        ever(lambda: xd.from_dlpack(Producer()), lambda: xd.from_dlpack(Producer(), copy=True))
        ever(lambda: xd.Stream("opencl:0", native=Native()), lambda: xd.asarray(Owner(64)))
    """,
    "threads that wait": """
        t = xd.zeros((50, 50))
        ever(t.synchronize, t.copy)
    """,
}  # fmt: skip


def ended(body: str) -> list[tuple[int, str]]:
    """How runs of a script ended that did not end well."""
    path = [str(Path(__file__).parent), *sys.path]
    lines = "\n".join(line[8:] for line in body.splitlines())
    command = [sys.executable, "-c", SETUP.format(path=path) + lines]

    def run(_number: int) -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(2) as pool:
        return [bad for bad in pool.map(run, range(RUNS)) if bad != (0, "")]


@pytest.mark.parametrize("case", ENDS)
def test_a_script_ends_whatever_its_threads_do(case: str) -> None:
    assert not ended(ENDS[case])


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`late_in_c.c`, compiled."""
    library = tmp_path_factory.mktemp("late") / "late.so"
    source = Path(__file__).with_name("late_in_c.c")
    include = sysconfig.get_path("include")
    command = ["cc", "-shared", "-fPIC", "-pthread", "-I", include, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


TENSORS = {
    "a compact array of NumPy's": "xd.from_dlpack(np.zeros(3))",
    "a strided array of NumPy's": "xd.from_dlpack(np.zeros(6)[::2])",
    "a tensor with a deleter in Python":
        "xd.from_dlpack(handmade.Forged(on_delete=lambda: None).capsule())",
    "a buffer": "xd.asarray(bytearray(24))",
}  # fmt: skip


def test_a_thread_may_give_tensors_back_while_the_interpreter_ends(late: Path) -> None:
    body = f"""
        import ctypes
        lib = ctypes.CDLL({str(late)!r})
        kept = []
        for t in [{", ".join(TENSORS.values())}]:
            t.shape
            kept.append(handmade.consume(t.__dlpack__(max_version=(1, 3))))
            lib.release_at_the_end(ctypes.byref(kept[-1]))
        del t
    """
    assert not ended(body)


@pytest.mark.ends
@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
def test_what_comes_back_behind_the_gate_is_a_counted_leak(
    late: Path, tensor: str, child: Any
) -> None:
    done = child(
        f"""
import atexit, ctypes

@atexit.register  # Before crossdock's own function is registered: called after it.
def after():
    before = xd._crossdock._counted_leaks()
    lib.release_now(ctypes.byref(managed))
    print(xd._crossdock._counted_leaks() - before)

import crossdock as xd, handmade, numpy as np
lib = ctypes.CDLL({str(late)!r})
t = {tensor}
t.shape
managed = handmade.consume(t.__dlpack__(max_version=(1, 3)))
del t
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.ends
def test_an_exit_function_may_wait_for_a_thread_that_works_here(child: Any) -> None:
    # As a pool does that was made before: its threads must not be held behind the gate.
    done = child(
        """
import atexit, threading
go = threading.Event()

@atexit.register
def after():
    go.set()
    thread.join()
    print("joined")

import crossdock as xd, numpy as np
def work():
    go.wait()
    for _ in range(100):
        t = xd.from_dlpack(np.zeros(100))
        t.fill(2.0)
        assert t.copy().tolist() == [2.0] * 100
thread = threading.Thread(target=work, daemon=True)
thread.start()
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "joined\n", "")


@pytest.mark.ends
def test_a_child_of_a_fork_does_not_wait_for_threads_of_its_parent(child: Any) -> None:
    done = child(
        """
import ctypes, os, sys, threading, time
import crossdock as xd, handmade

inside, go = threading.Event(), threading.Event()
def on_delete():
    inside.set()
    go.wait()
t = xd.from_dlpack(handmade.Forged(on_delete=on_delete).capsule())
managed = handmade.consume(t.__dlpack__(max_version=(1, 3)))
del t
# ctypes lets the lock go around the call, so that the thread is one that the gate counts.
release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(managed.deleter, ctypes.c_void_p).value)
at = ctypes.addressof(managed)
thread = threading.Thread(target=release, args=(at,), daemon=True)
thread.start()
inside.wait()
begun = time.monotonic()
pid = os.fork()
if not pid:
    sys.exit()
_, status = os.waitpid(pid, 0)
took = time.monotonic() - begun
go.set()
thread.join()
print(status, took < 1.5)
"""
    )
    assert (done.returncode, done.stdout) == (0, "0 True\n"), done.stderr
