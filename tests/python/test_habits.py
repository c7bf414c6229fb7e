"""A sample of the campaign of habits, and that it finds what scripts do wrong."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crossdock as xd
import pytest
from habits.draw import MARK, pieces, script
from habits.present import present
from habits.small import smallest
from habits.table import Row
from habits.trial import run

SEEDS = range(12)
BUILT = Path(xd.__file__).parents[2] / "debug"


@pytest.fixture
def late_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices whose work completes late, where they are built."""
    if (BUILT / "libcrossdock_plugin_asynchronous.so").exists():
        monkeypatch.setenv("CROSSDOCK_PLUGIN_PATH", f"{BUILT}")
        monkeypatch.setenv("CROSSDOCK_PLUGINS", "cpu,opencl,asynchronous")


@pytest.mark.usefixtures("late_work")
def test_scripts_of_random_habits_end_with_0_or_an_exception() -> None:
    here, row = present(), Row()

    def one(seed: int) -> list[str]:
        text, habits = script(seed, here.devices, here.modules)
        trial = run(text)
        if trial.what == "Hang":  # Beside others it may only be slow.
            trial = run(text, 60)
        row.add(habits, trial)
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


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found_and_made_small(what: str) -> None:
    text, _ = script(3, ("cpu:0",), frozenset())
    head, *rest = pieces(text)
    at = next(number for number, piece in enumerate(rest) if piece.startswith(f"{MARK}main"))
    planted = f"    {MARK}planted\n    {PLANTED[what]}\n"
    whole = [head, *rest[: at + 1], f"    {MARK}other\n    print(1)\n", planted]
    found = run("".join(whole), 5)
    assert found.what == what, found.said
    small = smallest("".join(whole), what, time.monotonic() + 30, lambda part, _limit: run(part, 5))
    assert "planted" in small and "other" not in small


def test_a_child_that_crashes_and_one_that_stays_are_found() -> None:
    text, _ = script(3, ("cpu:0",), frozenset())
    kept = text.partition(f"{MARK}main")[0] + f'{MARK}main\nif __name__ == "__main__":\n'
    crashes = "    pid = os.fork()\n    if not pid:\n        os.abort()\n    os.waitpid(pid, 0)\n"
    assert run(kept + crashes).what == "Signal"
    stays = "    if not os.fork():\n        threading.Event().wait()\n"
    assert run(kept + stays, 3).what == "Hang"


def test_a_script_of_a_seed_is_always_the_same() -> None:
    drawn = [script(seed, ("cpu:0", "opencl:0"), frozenset({"pyopencl"})) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert "".join(pieces(drawn[0][0])) == drawn[0][0]


def test_asked_codes_and_exceptions_pass() -> None:
    text, _ = script(3, ("cpu:0",), frozenset())
    kept = text.partition(f"{MARK}main")[0] + f'{MARK}main\nif __name__ == "__main__":\n'
    for line in ("sys.exit(3)", 'sys.exit("a text")', "raise ValueError('nobody')"):
        trial = run(f"{kept}    {MARK}end\n    {line}\n")
        assert not trial.what, trial
    assert re.search("ValueError in 'end'", trial.uncaught)
    assert os.path.isdir(BUILT.parent)
