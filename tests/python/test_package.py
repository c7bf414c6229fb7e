"""The package as it is installed: what its import takes, and its command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import crossdock as xd

OTHERS = """
import sys
before = set(sys.modules)
import crossdock
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - {"crossdock"} - sys.stdlib_module_names))
"""
TIMED = """
import time
start = time.perf_counter()
import {}
print(time.perf_counter() - start)
"""


def answer(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_takes_no_other_package() -> None:
    assert answer(OTHERS) == ""


def test_the_import_takes_a_quarter_of_numpys_at_most() -> None:
    ours, numpys = [
        min(times)
        for times in zip(
            *((answer(TIMED.format(n)) for n in ("crossdock", "numpy")) for _ in range(7))
        )
    ]
    assert float(ours) <= float(numpys) / 4


def test_the_command_is_inside() -> None:
    command = Path(xd.__file__).parent / "command"
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert xd.__version__ in run.stdout
    entry = [sys.executable, "-c", "from crossdock._command import main; main()", "--version"]
    assert subprocess.run(entry, capture_output=True, text=True, check=True).stdout == run.stdout
