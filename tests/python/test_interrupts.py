"""What the handler of a signal raises ends each wait for a device, with a limit and without one."""

from __future__ import annotations

import threading
import time

import crossdock as xd
import pytest
from conftest import Child
from held import Held

PROGRAM = """
import signal, time
import crossdock as xd
from held import Held

class Interrupted(Exception):
    pass

def handler(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, handler)
source, held = xd.zeros(16), Held()
stream = held.stream
tensor = source.to("cpu", stream=stream, copy=True)
event, device = stream.record(), xd.device("cpu")
begin = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    {call}
except Interrupted:
    # A test machine may be slow; the limit of the wait is a minute.
    print("interrupted", time.monotonic() - begin < 30)
finally:
    held.let_go()
"""

LIMITS = {"without a limit": "", "with a limit": "60.0"}
CALLS = {
    "event": "event.synchronize({})",
    "stream": "stream.synchronize({})",
    "device": "device.synchronize({})",
    "tensor": "tensor.synchronize({})",
    "releases": "del tensor; xd.wait_for_releases({})",
}


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_signal_ends_a_wait(child: Child, call: str, limit: str) -> None:
    run = child(PROGRAM.format(call=call.format(limit)))
    assert (run.returncode, run.stdout) == (0, "interrupted True\n"), run.stderr


FAILING = """
import os, signal
import crossdock as xd
from held import Held

class Interrupted(Exception):
    pass

def handler(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, handler)
held = Held()
waits = {of}
for _ in range(8):
    # Behind the first slice of the wait.
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        waits.synchronize()
    except Interrupted:
        pass
names = [open(f"/proc/self/task/{{task}}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum(name.startswith("crossdock-pyth") for name in names))
held.let_go(status=22)
try:
    waits.synchronize()
except xd.DeviceError:
    print("failed")
waits.synchronize()
"""


@pytest.mark.parametrize(("of", "threads"), [("held.stream", 0), ('xd.device("cpu")', 1)])
def test_an_interrupted_wait_loses_no_failure_and_adds_no_threads(child: Child, of: str, threads: int) -> None:
    run = child(FAILING.format(of=of))
    assert (run.returncode, run.stdout) == (0, f"{threads}\nfailed\n"), run.stderr


@pytest.mark.parametrize("of", ["stream", "device"])
def test_a_wait_ends_with_what_there_was_when_it_began(of: str) -> None:
    held = Held()
    waits = held.stream if of == "stream" else xd.device("cpu")
    waiter = threading.Thread(target=waits.synchronize)
    waiter.start()
    rounds = 0
    # Before each piece of work ends there is another one, and each takes longer than a slice.
    while waiter.is_alive() and rounds < 20:
        last, held = held, Held()
        waiter.join(0.15)
        last.let_go()
        rounds += 1
    held.let_go()
    waiter.join()
    assert rounds < 20


def test_a_limit_of_several_slices_is_kept() -> None:
    held = Held()
    event = held.stream.record()
    for wait in (event.synchronize, held.stream.synchronize):
        begin = time.monotonic()
        with pytest.raises(xd.DeviceTimeoutError):
            wait(0.25)
        assert time.monotonic() - begin >= 0.25
    held.let_go()
    event.synchronize(30)


def test_an_error_of_a_wait_names_the_device() -> None:
    held = Held()
    event, own = held.stream.record(), xd.device("cpu")
    for wait in (event.synchronize, held.stream.synchronize, own.synchronize):
        with pytest.raises(xd.DeviceTimeoutError) as late:
            wait(0.0)
        assert (late.value.device, late.value.plugin) == ("cpu:0", "cpu")
    held.let_go()
