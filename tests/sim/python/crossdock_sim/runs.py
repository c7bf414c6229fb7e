"""Runs a command over the simulator, once or once a seed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from crossdock_sim import control, libraries, recover
from crossdock_sim.reports import Report, in_folder

# What the simulator does where nothing is said. By `lazy` all seeds do the same.
POLICY, SEED = "lazy", 1
VENDORS = {"cuda": "CUDA", "rocm": "ROCm"}
POLICIES = ["lazy", "seeded", "threads"]
POLICY_OF_SEEDS = "seeded"
SAME = "crossdock-sim: by the policy lazy all seeds do the same: choose seeded, or one seed"


def policy_of(said: str | None, seeds: int | None) -> str:
    """The policy of a run, where one or several seeds are asked for."""
    return said or (POLICY_OF_SEEDS if seeds is not None and seeds > 1 else POLICY)


@dataclass(frozen=True)
class Run:
    """How a command ended, and what was reported meanwhile."""

    seed: int
    policy: str
    command: tuple[str, ...]
    # As a shell has it: 128 and the signal that ended it.
    ended: int
    reports: list[Report]
    # Those of the process that made the most, where they are asked for.
    choices: list[str] = field(default_factory=list)
    # Whether somebody asked for the end of it, and of the runs behind it.
    is_interrupted: bool = False
    # Whether a process opened a simulated driver.
    is_opened: bool = True

    @property
    def status(self) -> int:
        return self.ended or (3 if self.reports else 0)


def exit_with_error(why: str) -> NoReturn:
    """Ends this process, as one that cannot do what it was told to."""
    print(f"crossdock-sim: {why}", file=sys.stderr)
    raise SystemExit(2)


def core() -> Path:
    """The simulator's core: of the wheel, or the one that CROSSDOCK_SIM_LIBRARY names."""
    named = os.environ.get("CROSSDOCK_SIM_LIBRARY")
    found = Path(named) if named else libraries.READY / libraries.CORE
    if not found.is_file():
        install = "install the wheel crossdock-sim, or build it (cargo build -p crossdock-sim) and let"
        exit_with_error(f"{found} is not there: {install} CROSSDOCK_SIM_LIBRARY name target/debug/libcrossdock_sim.so")
    return found


def run(command: list[str], words: Mapping[str, str], environment: Mapping[str, str] = {}) -> Run:
    """Runs a command in a folder of its own for libraries and reports. `{seed}` in its words is the seed."""
    words = {"policy": POLICY, "seed": str(SEED), **words}
    seed, policy = int(words["seed"]), words["policy"]
    command = [word.replace("{seed}", str(seed)) for word in command]
    folder = libraries.new_folder()
    try:
        if why := control.refused_words(core(), libraries.text_of(words)):
            # Nobody wrote that variable.
            exit_with_error(why.replace(" of CROSSDOCK_SIM", "", 1))
        libraries.put(folder, core(), words)
        told = folder / "told"
        told.mkdir()
        variables = dict(os.environ, **environment)
        variables["CROSSDOCK_SIM"] = libraries.text_of(words)
        variables["CROSSDOCK_SIM_DIR"] = str(told)
        paths = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
        ended, is_interrupted = wait(command, variables)
        reports = [Report.read(made, seed, policy) for made in found(told)]
        texts = [file.read_text() for file in told.rglob("*.choices")]
        is_opened = any(told.rglob(libraries.OPENED))
        choices = max(([choice for choice in text.split(",") if choice] for text in texts), key=len, default=[])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Run(seed, policy, tuple(command), ended, reports, choices, is_interrupted, is_opened)


def tell_of_nothing(ran: Sequence[Run], words: Mapping[str, str], option: str = "--") -> None:
    """Says so where nothing was simulated: what passed then has tested nothing. Or another vendor was asked for."""
    if not any(one.is_opened for one in ran):
        others = [f"; {option}{name} N adds {vendor}'s" for name, vendor in VENDORS.items() if name not in words]
        print("crossdock-sim: no process opened a simulated driver" + "".join(others), file=sys.stderr)


def found(told: Path) -> Iterator[dict[str, Any]]:
    """What processes reported, and what failed a test of the pytest plugin."""
    # No process is waited for any more: what one left is read, and what one has not told yet is its own.
    recover.recover_reports(told)
    yield from in_folder(told)
    yield from in_folder(told, "failed")


def wait(command: list[str], variables: Mapping[str, str]) -> tuple[int, bool]:
    """Runs a command to its end; signals that would end this process go to it. Its exit code, and whether one came."""
    try:
        process = subprocess.Popen(command, env=dict(variables))
    except OSError as error:
        print(f"crossdock-sim: {command[0]}: {error.strerror}", file=sys.stderr)
        return (127 if isinstance(error, FileNotFoundError) else 126), False
    with handed_on(process) as came:
        ended = process.wait()
    return (ended if ended >= 0 else 128 - ended), bool(came)


@contextmanager
def handed_on(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Hands signals on, and keeps which came. A terminal's interrupt reaches the process by itself."""
    came: list[int] = []

    def hand_on(number: int, _frame: Any) -> None:
        came.append(number)
        if number != signal.SIGINT:
            process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
