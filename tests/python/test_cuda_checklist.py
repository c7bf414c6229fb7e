"""Rules and bugs of exchange that a driver decides, and wrong claims, on CUDA over the simulated driver.

`cuda/checklist.py` has them, one function each. Rules 59, 64 to 66 and 112, and bugs 25 and 28, are rules of order:
`test_order.py` has those.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().parent / "cuda/checklist.py"
NAMES = re.findall(r"^@test\ndef (\w+)\(", SCRIPT.read_text(), re.MULTILINE)


@functools.cache
def simulated(policy: str) -> str:
    options = ["--cuda", "2", "--policy", policy]
    command = [str(ROOT / "scripts/with-sim"), *options, "--", sys.executable, str(SCRIPT)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("policy", ["lazy", "seeded", "threads"])
@pytest.mark.parametrize("name", NAMES)
def test_on_cuda(name: str, policy: str) -> None:
    told = simulated(policy)
    assert f"{name}: ok" in told.splitlines(), told
