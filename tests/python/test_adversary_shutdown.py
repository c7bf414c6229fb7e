"""Threads that are in Python code which the package called, while the interpreter ends."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
sys.path[:0] = {path!r}
import crossdock as xd

cpu = xd.device("cpu:0")

def work():
    while True:
        stream = xd.Stream(cpu)
        tensor = xd.asarray(memoryview(bytearray(65536))).to(cpu, copy=True, stream=stream)
        {call}

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.01)
sys.exit(0)
"""

CALLS = {
    "a fill": "tensor.fill(1)",
    "its elements as a list": "tensor[:100].tolist()",
}

# How often it happens depends on who waits for the interpreter's lock at the end.
RUNS = 20


@pytest.mark.parametrize("call", CALLS)
def test_a_thread_in_python_that_the_package_called_ends_with_the_interpreter(call: str) -> None:
    program = PROGRAM.format(path=sys.path, call=CALLS[call])
    for _ in range(RUNS):
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
