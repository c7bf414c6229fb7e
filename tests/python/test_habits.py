"""A sample of the campaign of habits, and that it finds what scripts do wrong."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from habits.draw import MAIN, MARK, pieces, script
from habits.habit import ALL
from habits.present import MODULES, present
from habits.small import smallest
from habits.table import Row
from habits.trial import run
from pythons import BUILT

SEEDS = range(12)
LATE = BUILT / "libcrossdock_plugin_asynchronous.so"


def test_scripts_of_random_habits_end_with_0_or_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on devices whose work completes late."""
    if not LATE.is_file():
        pytest.skip(f"{LATE} is not built: cargo build -p crossdock-plugin-asynchronous")
    monkeypatch.setenv("CROSSDOCK_PLUGIN_PATH", f"{BUILT}")
    monkeypatch.setenv("CROSSDOCK_PLUGINS", "cpu,opencl,asynchronous")
    here, row = present(), Row()
    assert any(device.startswith("vpi") for device in here.devices), here

    def one(seed: int) -> list[str]:
        text, habits = script(seed, here.devices, here.modules)
        trial = run(text)
        if trial.what == "Hang":  # Beside others it may only be slow.
            trial = run(text, 60)
        row.add(seed, habits, trial)
        return [f"seed {seed}: {trial.what}: {trial.text}\n{trial.said}\n{text}"] if trial.what else []

    with ThreadPoolExecutor(2) as pool:
        found = [text for each in pool.map(one, SEEDS) for text in each]
    assert not found, "\n".join(found)
    assert row.programs == len(SEEDS) and row.habits.total() > 50


PLANTED = {
    "Signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "Panic": "print('panicked at', file=sys.stderr)",
    "WrongByte": "tried(lambda: check(xd.zeros(3), np.ones(3)))",
    "Code": "os._exit(5)",
    "Hang": "threading.Event().wait()",
}  # fmt: skip


INTERRUPT = """try:
        threading.Timer(0, _thread.interrupt_main).start()
        threading.Event().wait()
    except KeyboardInterrupt:
        print('caught KeyboardInterrupt', flush=True)"""


def a_script(*habits: str) -> str:
    """A script of these lines, each a habit."""
    head, _, _ = script(0, ("cpu:0",), frozenset())[0].partition(f"{MARK}main")
    body = "".join(f"    {MARK}{number}\n    {lines}\n" for number, lines in enumerate(habits))
    return head.rstrip("\n") + MAIN + body


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found_and_made_small(what: str) -> None:
    limit = 3 if what == "Hang" else 20
    whole = a_script("before = 1", PLANTED[what], "after = 1")
    found = run(whole, limit)
    assert found.what == what, found.said
    small = smallest(whole, what, time.monotonic() + 60, lambda part, _limit: run(part, limit))
    assert PLANTED[what] in small and "before = 1" not in small and "after = 1" not in small


def test_a_child_that_crashes_and_one_that_stays_are_found() -> None:
    assert run(a_script("os.fork() or os.abort()", "os.wait()")).what == "Signal"
    assert run(a_script("os.fork() or threading.Event().wait()"), 3).what == "Hang"


def test_a_script_is_interrupted_also_where_the_campaign_runs_in_the_background() -> None:
    """A shell ignores interrupts for what it runs there, and what that starts has it from there."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = run(a_script(INTERRUPT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not found.what and found.caught["KeyboardInterrupt"] == 1, found


def test_a_script_of_a_seed_is_always_the_same() -> None:
    drawn = [script(seed, ("cpu:0", "opencl:0"), frozenset({"pyopencl"})) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert "".join(pieces(drawn[0][0])) == drawn[0][0]


def test_every_habit_is_drawn_by_some_seed() -> None:
    devices = ("cpu:0", "opencl:0", "vpi:0")
    drawn = set()
    for seed in range(1000):
        drawn |= {*script(seed, devices, frozenset(MODULES))[1]}
    assert {habit.name for habit in ALL.habits} == drawn


@pytest.mark.parametrize("line", ["sys.exit(3)", 'sys.exit("a text")', "raise ValueError('nobody')"])
def test_a_code_that_was_asked_for_and_an_exception_pass(line: str) -> None:
    trial = run(a_script(line))
    assert not trial.what, trial
    assert trial.uncaught == ("ValueError in '0'" if "raise" in line else "")
