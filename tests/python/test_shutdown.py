"""Tensors that outlive the interpreter, each in a process of its own (bug 2)."""

import subprocess
import sys
from typing import Any

import pytest

SETUP = """
import ctypes, sys
sys.path[:0] = {path!r}
import crossdock as xd, handmade, numpy as np
libc = ctypes.CDLL(None)

def at_exit(managed):
    # Called when the C library ends the process: Python is gone by then.
    deleter = ctypes.cast(managed.deleter, ctypes.c_void_p)
    assert libc.__cxa_atexit(deleter, ctypes.c_void_p(ctypes.addressof(managed)), None) == 0
"""

CASES = {
    "an export of a NumPy array": """
        managed = handmade.consume(xd.from_dlpack(np.zeros(3)).__dlpack__(max_version=(1, 3)))
        at_exit(managed)
    """,
    "an export of our own memory": """
        ours = xd.from_dlpack(np.zeros(3), copy=True)
        at_exit(handmade.consume(ours.__dlpack__(max_version=(1, 3))))
    """,
    "a tensor in a cycle": """
        class Holder: pass
        holder = Holder()
        holder.me, holder.tensor = holder, xd.from_dlpack(np.zeros(3))
        del holder
    """,
    "a tensor that a builtin holds": """
        import builtins
        builtins.kept = xd.from_dlpack(np.zeros(3)), np.zeros(3).__dlpack__()
    """,
    "a thread that exchanges while the interpreter ends": """
        import threading
        # Drivers are loaded before: some do not survive it while the process ends.
        array = np.zeros(3)
        xd.from_dlpack(array)
        def exchange():
            while True:
                np.from_dlpack(xd.from_dlpack(array))
        for _ in range(2):
            threading.Thread(target=exchange, daemon=True).start()
    """,
    "an owner that a thread drops": """
        import threading
        there = xd.from_dlpack(handmade.Forged(on_delete=lambda: None).capsule())
        threading.Thread(target=lambda held: None, args=(there,)).start()
    """,
}


@pytest.mark.ends
@pytest.mark.parametrize("case", CASES)
def test_bug_2_a_tensor_may_outlive_the_interpreter(case: Any) -> None:
    body = "\n".join(line[8:] for line in CASES[case].splitlines())
    script = SETUP.format(path=[*sys.path]) + body + "\nprint('end')\n"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "end"), done.stderr


# A daemon thread is in Python code below one of our frames when the interpreter ends, which takes
# long enough for the thread to ask for it once more.
IN_PYTHON_CODE = """
import gc, sys, threading, time
import numpy as np, crossdock as xd

class SlowToEnd:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)

class Number:
    def __index__(self):
        inside.set()
        for _ in range(400):
            time.sleep(0.002)
        return 2

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self, sleep=time.sleep):
        inside.set()
        for _ in range(20):
            sleep(0.0005)

slow, inside, begin = SlowToEnd(), threading.Event(), threading.Event()
array = np.arange(6.0).reshape(2, 3)
tensor = xd.asarray(array)

def run():
    begin.wait()
    while True:
        {body}

for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
# From here on the main thread makes no objects: a collection here would have all the cycles to end, slowly.
begin.set()
assert inside.wait(20)
sys.exit(3)
"""

BODIES = {
    "an index": "tensor[Number()]",
    "a shape": "tensor.reshape(Number(), 3)",
    "a stream": "tensor.__dlpack__(stream=Number())",
    "a collection below an import": "Cycle(); [xd.from_dlpack(array) for _ in range(200)]",
    "a collection below a view": "Cycle(); [tensor[0] for _ in range(200)]",
    "a collection below an attribute": "Cycle(); [tensor.shape for _ in range(200)]",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_thread_in_python_code_below_ours_does_not_disturb_the_end(body: str) -> None:
    script = IN_PYTHON_CODE.replace("{body}", BODIES[body])
    for _ in range(4):
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 3, (done.returncode, done.stderr)
