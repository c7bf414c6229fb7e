"""Host bug 13: the host ends while scripts run, NumPy works, and deleters are called on other threads.

Each round is a process that is to end with 0, without a word. `CROSSDOCK_LONG=1` runs 500 rounds with
each Python.
"""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pythons import PACKAGE, PYTHONS, run, usable

HERE = Path(__file__).parent
ROUNDS = 500 if os.environ.get("CROSSDOCK_LONG") == "1" else 12
WAYS = ("main returns", "a thread of the script goes on", "main ends elsewhere", "a thread, elsewhere")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("host") / "exits"
    command = ["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-Wall", "-Wextra"]
    command += ["-Werror", *(f"-I{HERE.parent.parent / part / 'include'}" for part in ("host/capi", "sdk"))]
    command += [f"{HERE}/exits_in_c.c", "-o", f"{built}", f"-L{PACKAGE}", "-l:libcrossdock.so.1"]
    subprocess.run([*command, f"-Wl,-rpath,{PACKAGE}"], check=True)
    return built


@pytest.mark.parametrize("name", [name for name in PYTHONS if name != "3.11"])
def test_host_bug_13_exit_in_any_order(name: str, host: Path) -> None:
    python = usable(name)

    def ended(number: int) -> tuple[int, str]:
        after = number * 1237 % 30_000
        done = run([host, python, str(after), WAYS[number % len(WAYS)]])
        return done.returncode, done.stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rounds = list(enumerate(pool.map(ended, range(ROUNDS))))
    # An interrupt may come where Python can only tell of it: in a callback of a weak reference.
    bad = {
        number: (code, said)
        for number, (code, said) in rounds
        if code or not re.fullmatch(r"(Exception ignored in(.*\n)+?KeyboardInterrupt:? ?\n)*", said)
    }
    assert not bad, f"{len(bad)} of {ROUNDS}: {bad}"
